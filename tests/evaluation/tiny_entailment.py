"""A tiny random model of natural language inference."""

from transformers import BertConfig, BertForSequenceClassification

from tests.conftest import pair_tokenizer

POSITIONS = 40
LABELS = ("contradiction", "ENTAILMENT", "neutral")


def save_entailment_model(folder, labels=LABELS, kind=BertForSequenceClassification) -> str:
    """The folder, with a BERT and its tokenizer in it."""
    tokenizer = pair_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=POSITIONS,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        # so that probabilities are far from each other
        initializer_range=0.5,
    )
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
