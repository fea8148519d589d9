"""Tiny language models of each kind, with tokenizers fitted on the tests' sentences."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    XLNetConfig,
    XLNetLMHeadModel,
)

from hf_summ.data import fit_vocabulary
from tests.conftest import SENTENCES, save, word_piece_tokenizer

KINDS = ("masked", "causal", "permutation")
POSITIONS = 48


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """As XLNet's, fitted on the sentences."""
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<cls>", "sep_token": "<sep>"}
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=list(special.values()), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def bert_config(**changes) -> BertConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    # wide enough for predictions to depend on what was read
    settings = {"vocab_size": 130, "max_position_embeddings": POSITIONS, "initializer_range": 0.5}
    return BertConfig(**{**sizes, **settings, **changes})


def save_language_model(kind: str, folder: Path, **bert_settings) -> str:
    """A tiny language model of a kind with its tokenizer; the folder's name."""
    if kind == "masked":
        model, tokenizer = BertForPreTraining(bert_config(**bert_settings)), word_piece_tokenizer(SENTENCES, 120)
    elif kind == "causal":
        tokenizer = fit_vocabulary(SENTENCES, vocab_size=400, show_progress=False)
        config = GPT2Config(
            vocab_size=400, n_embd=16, n_layer=2, n_head=2, n_positions=POSITIONS, initializer_range=0.5
        )
        model = GPT2LMHeadModel(config)
    else:
        tokenizer = metaspace_tokenizer()
        config = XLNetConfig(
            vocab_size=160, d_model=16, n_layer=2, n_head=2, d_inner=32, initializer_range=0.5, ff_activation="relu"
        )
        model = XLNetLMHeadModel(config)
    return save(folder, model, tokenizer)
