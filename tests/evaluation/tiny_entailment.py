"""A tiny random model of natural language inference."""

from transformers import BertConfig, BertForSequenceClassification

from tests.conftest import pair_tokenizer

POSITIONS = 40
LABELS = ("contradiction", "ENTAILMENT", "neutral")


def save_entailment_model(folder, labels=LABELS, kind=BertForSequenceClassification) -> str:
    """The folder, with a BERT and its tokenizer in it."""
    tokenizer = pair_tokenizer()
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    # so that probabilities are far from each other
    sizes |= {"vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS, "initializer_range": 0.5}
    label2id = {label: number for number, label in enumerate(labels)}
    config = BertConfig(**sizes, id2label=dict(enumerate(labels)), label2id=label2id)
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
