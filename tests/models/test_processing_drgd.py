"""DRGD's processor: texts as they are, or washed as its program washes LCSTS's."""

import pytest
from transformers import AutoProcessor

from hf_summ import DrgdConfig, DrgdProcessor, GdlfProcessor
from hf_summ.data import fit_vocabulary
from hf_summ.data.vocabulary import fit_processor

HEADLINE = "财经： 2014年 Apple Watch（iPhone 6）售价“¥2,588”·首日——抢购！"
WASHED = "财经年applewatchiphone售价¥首日抢购"


@pytest.fixture
def tokenizer():
    return fit_vocabulary([HEADLINE, WASHED], units="characters", min_frequency=1, show_progress=False)


def test_texts_are_read_as_they_are(tokenizer):
    processor = DrgdProcessor(tokenizer)
    assert processor.washing is None
    assert processor.clean(HEADLINE) == HEADLINE
    assert processor.clean("a\ud83d") == "a\ufffd"
    labels = processor(text_target=HEADLINE)["labels"]
    assert processor.decode(labels, skip_special_tokens=True) == HEADLINE.replace("年 ", "年")
    config = DrgdConfig(decoder_start_token_id=5)
    processor.align(config)
    assert (config.vocab_size, config.decoder_start_token_id) == (len(tokenizer), 0)


def test_washing_of_lcsts_is_that_of_its_program(tokenizer, tmp_path):
    processor = DrgdProcessor(tokenizer, washing="lcsts")
    assert processor.clean(HEADLINE) == WASHED
    plain = DrgdProcessor(tokenizer)
    assert processor(HEADLINE, HEADLINE).data == plain(WASHED, WASHED).data != plain(HEADLINE, HEADLINE).data
    processor.save_pretrained(tmp_path)
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert (type(loaded), loaded.washing) == (DrgdProcessor, "lcsts")
    assert loaded(HEADLINE).data == processor(HEADLINE).data


@pytest.mark.parametrize("text", ["", "2014", "！", " \n　"])
def test_nothing_may_be_left_of_a_washed_text(tokenizer, text):
    processor = DrgdProcessor(tokenizer, washing="lcsts")
    assert processor(text)["input_ids"] == [tokenizer.eos_token_id]


@pytest.mark.parametrize("character", "!~·－％５、。《》【】「」〔〕…—“”‘’（）？；：￥\u3000\t\u00a07")
def test_what_is_deleted(tokenizer, character):
    assert DrgdProcessor(tokenizer, washing="lcsts").clean(f"A{character}之") == "a之"


@pytest.mark.parametrize("character", "々〇カ한é①℃🙂")
def test_what_stays(tokenizer, character):
    assert DrgdProcessor(tokenizer, washing="lcsts").clean(character) == character


def test_vocabulary_is_fitted_to_washed_texts():
    texts = [HEADLINE] * 2
    processor = fit_processor(texts, units="characters", washing="lcsts", max_source_length=7)
    assert (type(processor), processor.washing, processor.max_source_length) == (DrgdProcessor, "lcsts", 7)
    tokens = {token for token in processor.tokenizer.get_vocab() if not token.startswith("<")}
    assert tokens == {*WASHED.replace("applewatchiphone", ""), "applewatchiphone"}
    assert isinstance(fit_processor(texts, units="characters", tags="none"), GdlfProcessor)


def test_unknown_washing_is_refused(tokenizer):
    with pytest.raises(ValueError, match="`washing` is 'lcst', but must be None or one of lcsts"):
        DrgdProcessor(tokenizer, washing="lcst")
    with pytest.raises(ValueError, match=r"`washing` is 'lcst', but must be one of lcsts; did you mean lcsts\?"):
        fit_processor([HEADLINE], washing="lcst")
