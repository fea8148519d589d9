"""CopyTransformer's processor: BERT's WordPiece with `[CLS]` first, and what happens without it."""

import pytest
from transformers import AutoProcessor

from hf_summ import CopyTransformerProcessor
from tests.conftest import SENTENCES, word_piece_tokenizer
from tests.models.architectures import COPY_TRANSFORMER, COPY_TRANSFORMER_BERT


@pytest.fixture
def wordpiece():
    """BERT's kind of tokenizer, as it comes: without beginning and end token, for a model of few positions."""
    tokenizer = word_piece_tokenizer(SENTENCES, 300, model_max_length=8)
    assert tokenizer.bos_token is None
    assert tokenizer.eos_token is None
    return tokenizer


def test_documents_begin_with_cls_and_summaries_end_with_sep(wordpiece):
    processor = CopyTransformerProcessor(wordpiece)
    features = processor(text=SENTENCES, text_target=SENTENCES)
    subwords = wordpiece(SENTENCES, add_special_tokens=False)["input_ids"]
    assert features["input_ids"] == [[wordpiece.cls_token_id, *row] for row in subwords]
    assert features["labels"] == [[*row, wordpiece.sep_token_id] for row in subwords]
    assert features["attention_mask"] == [[1] * (len(row) + 1) for row in subwords]
    texts = processor.batch_decode(features["labels"], skip_special_tokens=True)
    assert texts[0] == "mayor ana lopez opened the new bridge over the river on monday."


def test_lengths_count_the_special_tokens(wordpiece):
    processor = CopyTransformerProcessor(wordpiece, max_source_length=7, max_target_length=5)
    features = processor(text=SENTENCES, text_target=SENTENCES)
    assert {len(row) for row in features["input_ids"]} == {7}
    assert {len(row) for row in features["labels"]} == {5}
    assert {row[-1] for row in features["labels"]} == {wordpiece.sep_token_id}
    whole = processor(text=SENTENCES[0], truncation=False)
    assert len(whole["input_ids"]) == len(wordpiece(SENTENCES[0], add_special_tokens=False)["input_ids"]) + 1


def test_special_tokens_that_a_text_spells_out_are_words(wordpiece):
    processor = CopyTransformerProcessor(wordpiece)
    features = processor(text="[CLS] the [SEP] bridge", text_target="[PAD] the [SEP] bridge")
    specials = set(wordpiece.all_special_ids) - {wordpiece.unk_token_id}
    assert not specials & set(features["input_ids"][1:])
    assert not specials & set(features["labels"][:-1])


def test_config_is_aligned(wordpiece):
    config = COPY_TRANSFORMER.config()
    CopyTransformerProcessor(wordpiece).align(config)
    assert config.vocab_size == len(wordpiece)
    assert config.pad_token_id == wordpiece.pad_token_id
    assert config.decoder_start_token_id == config.bos_token_id == wordpiece.cls_token_id
    assert config.eos_token_id == wordpiece.sep_token_id
    assert config.mask_token_id == wordpiece.mask_token_id
    config = COPY_TRANSFORMER_BERT.config()
    with pytest.raises(ValueError, match=f"`vocab_size` is {len(wordpiece)}, but BERT has 40 tokens"):
        CopyTransformerProcessor(wordpiece).align(config)


def test_tokenizer_without_cls_ends_documents(tiny_tokenizer):
    features = CopyTransformerProcessor(tiny_tokenizer)(text=SENTENCES)
    assert tiny_tokenizer.cls_token is None
    assert all(row[-1] == tiny_tokenizer.eos_token_id for row in features["input_ids"])


def test_apostrophes_come_back_without_spaces(tmp_path):
    text = "the mayor's bridge isn't new, is it?"
    CopyTransformerProcessor(word_piece_tokenizer([text], 80)).save_pretrained(tmp_path)
    processor = AutoProcessor.from_pretrained(tmp_path)
    assert processor.decode(processor(text_target=text)["labels"], skip_special_tokens=True) == text
