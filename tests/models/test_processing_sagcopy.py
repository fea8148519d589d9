"""SAGCopy's processor frames texts as the models that it starts from do."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_summ import SagCopyConfig, SagCopyProcessor
from tests.conftest import word_piece_tokenizer

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "bridge", "opened"]


def tokenizer_of_words(**special):
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", **special)


def test_with_a_token_for_the_beginning_both_sides_begin_with_it():
    # as BART's
    processor = SagCopyProcessor(tokenizer_of_words(bos_token="<s>", eos_token="</s>", cls_token="<s>"))
    features = processor(["the bridge", "the"], text_target=["bridge opened", "the"])
    assert features["input_ids"] == [[0, 4, 5, 2], [0, 4, 2]]
    assert features["labels"] == [[0, 5, 6, 2], [0, 4, 2]]
    cut = processor("the bridge opened", text_target="the bridge opened", max_length=3, max_target_length=3)
    assert cut["input_ids"] == cut["labels"] == [0, 4, 2]
    config = SagCopyConfig()
    processor.align(config)
    assert (config.vocab_size, config.pad_token_id, config.bos_token_id) == (7, 1, 0)
    assert config.decoder_start_token_id == config.eos_token_id == 2


@pytest.mark.parametrize("name", ["max_source_length", "max_target_length"])
def test_lengths_beyond_the_positions_are_refused(name):
    processor = SagCopyProcessor(tokenizer_of_words(eos_token="</s>"), **{name: 513})
    message = rf"`{name}` is 513, but `max_positions` is 512"
    with pytest.raises(ValueError, match=message):
        processor.align(SagCopyConfig())
    processor.align(SagCopyConfig(max_positions=513))
    processor.align(SagCopyConfig(positions="sinusoids"))


def test_without_one_both_sides_have_the_end_token_alone():
    processor = SagCopyProcessor(tokenizer_of_words(bos_token="<s>", eos_token="</s>"))
    features = processor([["the bridge", "opened"]], text_target="bridge")
    assert features["input_ids"] == [[4, 5, 2, 6, 2]]
    assert features["labels"] == [[5, 2]]
    config = SagCopyConfig()
    processor.align(config)
    assert config.decoder_start_token_id == 2


def test_tokenizer_of_a_bert():
    tokenizer = word_piece_tokenizer(["the bridge opened"], 60)
    processor = SagCopyProcessor(tokenizer)
    (row,) = processor(["the bridge"])["input_ids"]
    assert tokenizer.convert_ids_to_tokens([row[0], row[-1]]) == ["[CLS]", "[SEP]"]
    with pytest.raises(ValueError, match="`max_target_length` is 1, but must be at least 2"):
        SagCopyProcessor(tokenizer, max_target_length=1)
