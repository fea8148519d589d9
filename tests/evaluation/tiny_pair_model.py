"""A tiny random BERT that reads pairs."""

import torch
from transformers import BertConfig

from tests.conftest import pair_tokenizer, save

POSITIONS = 40


def save_pair_model(folder, kind) -> str:
    """The folder, with a BERT and its tokenizer in it."""
    tokenizer = pair_tokenizer()
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    # so that probabilities are far from each other
    sizes |= {"vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, "initializer_range": 0.5}
    return save(folder, kind(BertConfig(**sizes)), tokenizer)


def naive_probabilities(tokenizer, model, first: str, second: str) -> list[float]:
    """Of each label, for a pair on its own as BERT reads it, cut to the model's positions."""
    parts = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (first, second)]
    while sum(map(len, parts)) > POSITIONS - 3:
        max(parts, key=len).pop()
    end = tokenizer.sep_token_id
    ids = [tokenizer.cls_token_id, *parts[0], end, *parts[1], end]
    types = [0] * (len(parts[0]) + 2) + [1] * (len(parts[1]) + 1)
    return torch.softmax(model(torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits, -1)[0].tolist()
