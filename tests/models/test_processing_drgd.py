"""DRGD's processor: texts as they are, or washed as its program washes LCSTS's."""

import pytest
from transformers import AutoProcessor

from hf_summ import DrgdConfig, DrgdProcessor, GdlfProcessor
from hf_summ.data import fit_vocabulary
from hf_summ.data.vocabulary import fit_processor

HEADLINE = "财经： 2014年 Apple Watch（iPhone 6）售价“¥2,588”·首日——抢购！"
WASHED = "财经年applewatchiphone售价¥首日——抢购！"
WASHED_DOCUMENT = WASHED.removesuffix("！")
# a text, and what DRGD's program makes of it as a summary and, if that is something else, as a document
LINES = [
    ("“双11”来了？", "双来了？", "双来了"),
    ("央行：降息，降准！", "央行降息，降准！", "央行降息降准"),
    ("一。二；三？！四，，五", "一。二；三？！四，，五", "一二三四五"),
    ("【早报】《星球大战》3D版", "早报星球大战d版"),
    ("「快的」『滴滴』合并……", "快的滴滴合并"),
    ("iPhone 6S/6S Plus开售", "iphonessplus开售"),
    ("GDP同比增长７.４％", "gdp同比增长７４％"),
    ("马云—阿里（BABA）", "马云—阿里baba"),
    ("C罗•梅西·内马尔", "c罗•梅西内马尔"),
    ("〈国富论〉〔上〕", "〈国富论〉〔上〕"),
    ("ＡＴＭ机－取款", "ａｔｍ机－取款"),
    ("￥100与¥100与$100", "与¥与"),
    ("二〇一四年　五月\t七日\n", "二〇一四年五月七日"),
    ("#话题#@微博_用户", "话题微博用户"),
    ("１．２／３＆４", "１．２／３＆４"),
    ("‘引’“文”'与'\"号\"", "引文与号"),
    ("a<b>&lt;c^d`e|f~g", "abltcdefg"),
    ("50%~60%涨幅～", "涨幅～"),
    ("Q1、Q2、Q3：Q4", "qqqq"),
    ("カメラ・한국！", "カメラ・한국！", "カメラ・한국"),
]


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
    assert processor.clean(HEADLINE, is_document=True) == WASHED_DOCUMENT
    plain = DrgdProcessor(tokenizer)
    read = plain(WASHED_DOCUMENT, WASHED).data
    assert processor(HEADLINE, HEADLINE).data == read != plain(HEADLINE, HEADLINE).data
    assert processor([[HEADLINE, HEADLINE]]).data == plain([[WASHED_DOCUMENT] * 2]).data
    processor.save_pretrained(tmp_path)
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert (type(loaded), loaded.washing) == (DrgdProcessor, "lcsts")
    assert loaded(HEADLINE).data == processor(HEADLINE).data


@pytest.mark.parametrize("text", ["", "2014", "！", " \n　"])
def test_nothing_may_be_left_of_a_washed_text(tokenizer, text):
    processor = DrgdProcessor(tokenizer, washing="lcsts")
    assert processor(text)["input_ids"] == [tokenizer.eos_token_id]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_washed_lines_are_the_programs(tokenizer, line):
    processor = DrgdProcessor(tokenizer, washing="lcsts")
    assert (processor.clean(line[0]), processor.clean(line[0], is_document=True)) == (line[1], line[-1])


def test_vocabulary_is_fitted_to_washed_texts():
    texts = [HEADLINE] * 2
    processor = fit_processor(texts, units="characters", washing="lcsts", max_source_length=7)
    assert (type(processor), processor.washing, processor.max_source_length) == (DrgdProcessor, "lcsts", 7)
    tokens = {token for token in processor.tokenizer.get_vocab() if not token.startswith("<")}
    assert tokens == {*WASHED}
    assert isinstance(fit_processor(texts, units="characters", tags="none"), GdlfProcessor)


def test_unknown_washing_is_refused(tokenizer):
    with pytest.raises(ValueError, match="`washing` is 'lcst', but must be None or one of lcsts"):
        DrgdProcessor(tokenizer, washing="lcst")
    with pytest.raises(ValueError, match="`washing` is 'lcst', but must be one of lcsts"):
        fit_processor([HEADLINE], washing="lcst")
    with pytest.raises(ValueError, match="`restore_case` needs `lowercase` or `washing`"):
        fit_processor([HEADLINE], restore_case=True)
