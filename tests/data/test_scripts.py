"""The scripts of texts, and taggers of languages that are not written in them."""

import pytest

from hf_summ.data.scripts import check_script

pytest.importorskip("spacy")

SENTENCE = "US exits from WHO, says Ana Lopez."
CHINESE = "市长打开了新桥。2009年洪水之后,居民们提出了这个要求。"


def test_texts_that_the_tagger_cannot_read_are_refused(caplog):
    with pytest.raises(ValueError, match=r"1 of 1 documents are mostly in another script \(CJK\).*\(en\).*`tags=\"non"):
        check_script([CHINESE], "en_core_web_sm", "pos")
    texts = [SENTENCE, "Мэр открыл новый мост.", "Мост, by the way.", "Старый мост закрыли."]
    with pytest.raises(ValueError, match=r"2 of 4 documents are mostly in another script \(CYRILLIC\)"):
        check_script(texts, "en_core_web_sm", "pos")
    # a large corpus may have some
    check_script([SENTENCE, CHINESE, SENTENCE], "en_core_web_sm", "pos")
    assert "1 of 3 documents are mostly in another script (CJK)" in caplog.text
    caplog.clear()
    # numbers, names and quotations are no language
    check_script([f"{SENTENCE} Мэр 市长", "12 345.", "Zoë Müller naïvely ate ﬁve crêpes"], "en_core_web_sm", "pos")
    assert not caplog.text
