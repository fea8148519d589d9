"""Batches: rows padded by the processor, decoder inputs made by the model."""

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, BertConfig, BertModel

from hf_summ import GdlfProcessor
from hf_summ.data import SummarizationCollator

DOCUMENTS = ["Mayor Ana Lopez opened the new bridge.", "It rained.", "Residents of the old town asked for it."]
SUMMARIES = ["A bridge.", "Rain fell all day long.", "They asked."]


@pytest.fixture(scope="module")
def bart():
    config = BartConfig(
        vocab_size=400, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1,
        decoder_attention_heads=1, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return BartForConditionalGeneration(config)


@pytest.fixture(params=["processor", "tokenizer"])
def processor(request, tiny_tokenizer):
    return GdlfProcessor(tiny_tokenizer, tags="none") if request.param == "processor" else tiny_tokenizer


@pytest.fixture
def features(tiny_tokenizer):
    rows = []
    for document, summary in zip(DOCUMENTS, SUMMARIES, strict=True):
        row = dict(tiny_tokenizer(document))
        row["labels"] = tiny_tokenizer(summary)["input_ids"]
        row["document"] = "not for the model"
        rows.append(row)
    return rows


def unpad(batch):
    """The input_ids and labels of the rows from which a batch was made."""
    rows = []
    for ids, mask, labels in zip(batch["input_ids"], batch["attention_mask"], batch["labels"], strict=True):
        rows.append((ids[mask == 1].tolist(), labels[labels != -100].tolist()))
    return rows


def test_rows_come_back_from_the_batch(processor, features):
    batch = SummarizationCollator(processor)(features)
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert unpad(batch) == [(row["input_ids"], row["labels"]) for row in features]
    assert batch["input_ids"].shape[1] == max(len(row["input_ids"]) for row in features)
    assert batch["labels"].shape[1] == max(len(row["labels"]) for row in features)
    # Rows are padded on the right, with values that the model ignores.
    assert (batch["input_ids"] == 0).equal(batch["attention_mask"] == 0)
    assert batch["labels"][0, -1] == -100
    for tensor in batch.values():
        assert tensor.dtype == torch.int64


def test_decoder_inputs_are_the_labels_shifted(processor, features, bart):
    batch = SummarizationCollator(processor, bart)(features)
    assert batch["decoder_input_ids"][:, 0].tolist() == [1, 1, 1]
    expected = batch["labels"][:, :-1].masked_fill(batch["labels"][:, :-1] == -100, 0)
    assert batch["decoder_input_ids"][:, 1:].equal(expected)
    assert bart(**batch).loss.isfinite()


def test_without_labels_or_the_models_method_there_are_no_decoder_inputs(processor, features, bart):
    # The rows have no labels.
    rows = [{"input_ids": row["input_ids"], "attention_mask": row["attention_mask"]} for row in features]
    assert set(SummarizationCollator(processor, bart)(rows)) == {"input_ids", "attention_mask"}
    # The model makes no decoder inputs.
    config = BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    encoder = BertModel(config)
    assert "decoder_input_ids" not in SummarizationCollator(processor, encoder)(features)


def test_lengths_are_rounded_up(processor, features):
    batch = SummarizationCollator(processor, pad_to_multiple_of=16)(features)
    assert batch["input_ids"].shape[1] % 16 == batch["labels"].shape[1] % 16 == 0
    assert unpad(batch) == [(row["input_ids"], row["labels"]) for row in features]


def test_full_lengths(processor, features, bart):
    collator = SummarizationCollator(
        processor, bart, pad_to_max_length=True, max_source_length=60, max_target_length=40, pad_to_multiple_of=8
    )
    for rows in (features, features[1:2]):
        batch = collator(rows)
        assert batch["input_ids"].shape == batch["attention_mask"].shape == (len(rows), 64)
        assert batch["labels"].shape == batch["decoder_input_ids"].shape == (len(rows), 40)
        assert unpad(batch) == [(row["input_ids"], row["labels"]) for row in rows]


def test_full_lengths_are_the_processors_own_or_given(tiny_tokenizer, features):
    # full lengths are the processors own
    processor = GdlfProcessor(tiny_tokenizer, tags="none", max_source_length=70, max_target_length=50)
    batch = SummarizationCollator(processor, pad_to_max_length=True)(features)
    assert (batch["input_ids"].shape[1], batch["labels"].shape[1]) == (70, 50)
    # full lengths of a bare tokenizer must be given
    with pytest.raises(ValueError, match="`pad_to_max_length` needs `max_source_length` and `max_target_length`"):
        SummarizationCollator(tiny_tokenizer, pad_to_max_length=True, max_source_length=60)


def test_tags_are_padded_beside_the_subwords(tiny_tokenizer, features):
    processor = GdlfProcessor(tiny_tokenizer, tags="pos")
    tagged = [row | {"tag_ids": [5] * len(row["input_ids"])} for row in features]
    batch = SummarizationCollator(processor)(tagged)
    assert batch["tag_ids"].equal(5 * batch["attention_mask"])


def test_labels_longer_than_the_full_length(processor, features):
    collator = SummarizationCollator(processor, pad_to_max_length=True, max_source_length=60, max_target_length=3)
    with pytest.raises(ValueError, match=r"`labels` has a row of \d+, but must be at most `max_target_length` \(3\)"):
        collator(features)
