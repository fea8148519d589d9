"""Case and spacing of summaries, restored from their documents."""

import gzip
import json
import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from hf_summ.models.text_case import restored
from tests.conftest import SENTENCES
from tests.shared_data import SHARED_DATA, reads_shared_data

DOCUMENT = (
    "Non-wave truncation is naïve. We compare BERT, GPT-4.5 and BERT (Devlin et al. 2019) on the iPhone 15, e.g. in "
    "the U.S. Army. The model's word/sense ratio in São Paulo is 95%, not 3,000 or $5. Transformers beat it; "
    "McDonald's did not. Ana asked: \"Is LaTeX's bert-base state-of-the-art?\" In New York, new models of the New Age "
    "(NEW) are new. A pre-war test ran at 7:15 in d'Alembert's AND/OR lab."
)


# A decoded text, and the same with the case and spaces of the document.
CASES_OF_WORD_PIECES = [
    # spelled and joined as in the document
    ("on non - wave truncation", "On non-wave truncation"),
    ("non - wave truncation", "Non-wave truncation"),
    ("gpt - 4. 5 beats bert ( devlin )", "GPT-4.5 beats BERT (Devlin)"),
    ("gpt - 4 . 5", "GPT-4.5"),
    ("a word / sense ratio", "A word/sense ratio"),
    ("a naive method in sao paulo", "A naïve method in São Paulo"),
    ("the u . s . army", "The U.S. Army"),
    ("95 % of us , e . g . paulo", "95% of us, e.g. Paulo"),
    ("an and / or lab", "An AND/OR lab"),
    ("state - of - the - art latex", "State-of-the-art LaTeX"),
    ("alembert ' s model", "Alembert's model"),
    ("it is d ' alembert ' s", "It is d'Alembert's"),
    # the most frequent spelling, and that with the same joined neighbor
    ("the new one", "The new one"),
    ("a ( new ) one", "A (NEW) one"),
    ("bert - base", "Bert-base"),
    # only first words of sentences: in lower case, unless a capital follows the first letter
    ("some transformers", "Some transformers"),
    ("one mcdonald ' s", "One McDonald's"),
    # first letters
    ("iphone 15", "iPhone 15"),
    ("naive bayes . it works ! does it ? we do", "Naïve bayes. It works! Does it? We do"),
    ("in the u . s . it works", "In the U.S. it works"),
    ("shown by devlin et al . in prose", "Shown by Devlin et al. in prose"),
    ('" quoted " text', '"Quoted" text'),
    # tomaarsen/TwitchMarkovChain#31, hplt-project/sacremoses#152: who says it; o'neill
    ('he said " why ? " yesterday . then', 'He said "why?" yesterday. Then'),
    ("rock ' n ' roll by o ' neill and d ' angelo", "Rock 'n' roll by o'neill and d'angelo"),
    ("15 models . ( they work )", "15 models. (They work)"),
    ("élan", "Élan"),
    # punctuation that the document lacks, as in English
    ("some model ' s 20 % , i . e . 7 . 25", "Some model's 20%, i.e. 7.25"),
    ("they don ' t , we ' ll", "They don't, we'll"),
    ("the dogs ' ears", "The dogs' ears"),
    ("a ' big ' one ' s case", "A 'big' one's case"),
    ("a “ big ” one ’ s ‘ case ’", "A “big” one’s ‘case’"),
    ("pre - and post - tests", "Pre- and post-tests"),
    ("lisp - a language", "Lisp - a language"),
    ("4 , 500 or 12 , 5 at 8 : 15", "4,500 or 12, 5 at 8:15"),
    ("[ a ] { b } ( c )", "[A] {b} (c)"),
    ("so : what ? no ; wait . . .", "So: what? No; wait..."),
    ("£ 5 and $ x", "£5 and $ x"),
    ("r & d + c # = @ x _ y", "R & d + c # = @ x _ y"),
    ('one " quotation mark', 'One " quotation mark'),
    ("中 国 bert 模 型 ， 2 个 。", "中国BERT模型，2个。"),
    ("日 本 の bert", "日本のBERT"),
    ("", ""),
    ("?", "?"),
    ("\u0301", "\u0301"),
]


@pytest.mark.parametrize(("decoded", "expected"), CASES_OF_WORD_PIECES)
def test_decoded_word_pieces(decoded, expected):
    assert restored([decoded], [DOCUMENT]) == [expected]
    assert restored([expected], [DOCUMENT]) == [expected]


@pytest.mark.parametrize("is_split", [True, False])
def test_texts_that_are_right_stay(is_split):
    document = " ".join(SENTENCES)
    right = [document, *SENTENCES, "", "Is that so? (It is.)", "\"I said: 'no',\" he said.", "3.5 of AT&T's R&D"]
    assert restored(right, [document], is_split=is_split) == right
    assert restored([document.lower()], [document], is_split=is_split) == [document]


def test_restored_by_hand():
    # without documents only first letters and English spaces change
    assert restored(["bert is here . it ' s big"], []) == ["Bert is here. It's big"]
    assert restored(["bert is here . it ' s big"], [""], is_split=False) == ["Bert is here . It ' s big"]
    # spellings are counted over all documents and ties are in lower case
    documents = ["the Board met, a board", "on Board", "Boards"]
    assert restored(["a board"], documents) == ["A Board"]
    assert restored(["a board"], documents[:1]) == ["A board"]
    assert restored(["no board"] * 2, documents[2:]) == ["No board"] * 2
    # accents are restored only if the vocabulary has none
    document = "das Café ist schön, sagt Jose\u0301"
    assert restored(["ein cafe schon von jose"], [document]) == ["Ein Café schön von Jose\u0301"]
    assert restored(["ein cafe schon von josé"], [document], strips_accents=False) == ["Ein cafe schon von Jose\u0301"]
    # spaces of other tokenizers are removed only where the document has none
    written = "non - wave model : 95 % and 7 % 's"
    assert restored([written], [DOCUMENT], is_split=False) == ["Non-wave model : 95% and 7 % 's"]
    # first words are those after blank lines but not after abbreviations
    document = "Dr. Smith met J. Doe.\n\nHeadline without an end\n\nBridge (cf. Tower)! 'Today' it rains..."
    summary = "tower smith doe headline bridge today"
    assert restored([f"x {summary}"], [document]) == ["X Tower Smith Doe headline bridge today"]


@pytest.mark.parametrize(
    ("summary", "document", "expected"),
    [
        ("viel buße für alle", "Die Busse und noch mehr Busse. Er ruft zur Buße.", "Viel Buße für alle"),
        ("im finale", "Das ﬁnale, ﬁnale Wort vor dem FINALE", "Im FINALE"),
        ("die große halle", "In der GROẞE Halle", "Die GROẞE Halle"),
        ("ein λόγος", "Zum ΛΌΓΟΣ", "Ein ΛΌΓΟΣ"),
        # what begins with such a letter has no capital of one letter
        ("ﬁnale da. ßa", "x", "ﬁnale da. ßa"),
    ],
)
@pytest.mark.parametrize("strips_accents", [False, True])
def test_a_letter_is_never_spelled_by_two(summary, document, expected, strips_accents):
    assert restored([summary], [document], strips_accents) == [expected]


def test_words_of_a_term_get_their_capitals_together():
    document = "We test Large Language Models (LLMs), as the models of a language change the language."
    assert restored(["robots with large language models"], [document]) == ["Robots with Large Language Models"]
    assert restored(["models of a language"], [document]) == ["Models of a language"]
    # a short neighbor, such as an article, makes no term
    assert restored(["use the new one"], ["We see the New York of a new age, one new place."]) == ["Use the new one"]


def test_the_first_word_of_a_sentence_may_begin_a_term():
    document = (
        "Spiking Neural Networks save energy. Vision-Language Models see. Large dams hold water. In Rome, it rains."
    )
    titles = ["attacks on spiking neural networks", "energy of vision-language models", "the large dams in rome"]
    expected = ["Attacks on Spiking Neural Networks", "Energy of Vision-Language Models", "The large dams in Rome"]
    assert restored(titles, [document]) == expected


# Marks that the document has behind a space, as of .NET and of command lines: a decoded text, and what is restored.
CASES_OF_MARKS = [
    ("it runs on . net", "It runs on .NET"),
    ("we rely on . net , not on java", "We rely on .NET, not on Java"),
    ("set for . net", "Set for .NET"),
    ("a gain of . 5", "A gain of .5"),
    ("call it by - v", "Call it by -v"),
    ("asked by @ ana", "Asked by @Ana"),
    ("version 1 . 5", "Version 1.5"),
    ("main . py", "Main.py"),
    ("a pre - v gain", "A pre-v gain"),
]


@pytest.mark.parametrize(("decoded", "expected"), CASES_OF_MARKS)
def test_no_space_before_a_mark_is_lost(decoded, expected):
    document = (
        "Come on. We rely on .NET and Java. Move on. What for? The gain is .5 points in version 2. Use -v, not pre-v, "
        "or run util.py with -v as @Ana."
    )
    for is_split in (True, False):
        assert restored([expected.lower()], [document], is_split=is_split) == [expected]
    assert restored([decoded], [document]) == [expected]


def naive_tokens(text: str) -> list[tuple[int, str]]:
    """The tokens of an ASCII text with their starts."""
    return [(match.start(), match[0]) for match in re.finditer(r"[A-Za-z0-9]+|\S", text)]


def naive_begins(text: str, start: int) -> bool:
    before, word = text[:start], text[start]
    if not word.isalnum():
        return False
    since_word = re.search(r"[^A-Za-z0-9]*$", before)[0]
    if since_word == before or "\n\n" in since_word:
        return True
    ended = re.finditer(r"(\.)[\"')\]]*\s|[?!][)\]]*\s", since_word)
    previous = re.search(r"([A-Za-z0-9]+)[^A-Za-z0-9]*$", before)[1]
    is_short = previous.isalpha() and (len(previous) == 1 or previous.lower() in ("dr", "al"))
    return any(match[1] != "." or not is_short for match in ended)


def naive_words(text: str) -> list[dict]:
    """Each token with what surrounds it."""
    found = naive_tokens(text)
    starts, ends = {}, {}
    for start, token in found:
        starts[start] = token.lower()
        ends[start + len(token)] = token.lower()
    words, previous = [], None
    for start, token in found:
        word = {"token": token, "begins": naive_begins(text, start), "previous": previous}
        word["before"] = ends.get(start, "")
        word["after"] = starts.get(start + len(token), "")
        words.append(word)
        previous = token.lower()
    return words


def most(tokens: list[str]) -> str:
    """The most frequent spelling, and of equally frequent ones the one with lower case first."""
    counts = Counter(tokens)
    return max(counts, key=lambda token: (counts[token], token))


def naive_spelling(word: dict, documents: list[dict]) -> str:
    form = word["token"].lower()
    # occurrences in the documents, at the start of a sentence and inside of sentences
    beginning, inside = [], []
    for occurrence in documents:
        if occurrence["token"].lower() == form:
            if occurrence["begins"]:
                beginning.append(occurrence)
            else:
                inside.append(occurrence)
    joined = []
    for side in ("before", "after"):
        for occurrence in inside:
            if word[side] and occurrence[side] == word[side]:
                joined.append(occurrence["token"])
    if joined:
        return most(joined)
    if inside and word["before"] != "'":
        return most([occurrence["token"] for occurrence in inside])
    if beginning:
        first = most([occurrence["token"] for occurrence in beginning])
        has_inner_capital = any(letter.isupper() for letter in first[1:])
        return first if has_inner_capital else first.lower()
    return word["token"]


def naive_opens(before: str, mark: str, after: str, documents: list[str]) -> bool:
    """Whether the mark belongs to the token after it, as in `on .NET`."""
    if mark.isalnum() or mark in "'\"":
        return False
    neighbors, spaces = [], []
    for document in documents:
        found = naive_tokens(document)
        for index, (start, token) in enumerate(found[1:], 1):
            place, previous = found[index - 1]
            if token.lower() == after and previous == mark and start == place + 1:
                neighbors.append(found[index - 2][1].lower() if index > 1 else "")
                spaces.append(index == 1 or document[place - 1].isspace())
    exact = [space for neighbor, space in zip(neighbors, spaces, strict=True) if neighbor == before]
    if exact.count(True) != exact.count(False):
        return exact.count(True) > exact.count(False)
    is_decimal = before[-1].isdigit() and after[0].isdigit()
    return not is_decimal and spaces.count(True) > spaces.count(False)


def naive(summary: str, documents: list[str]) -> str:
    """`restored` of one text, without the spaces of English."""
    words = []
    for document in documents:
        words.extend(naive_words(document))
    found = naive_tokens(summary)
    text, end, previous = "", 0, None
    for index, (start, token) in enumerate(found):
        # whether each occurrence of the two tokens in the documents has no space between them
        joined = []
        for word in words:
            if word["previous"] == previous and word["token"].lower() == token.lower():
                joined.append(word["before"] != "")
        joins = sum(joined) > len(joined) / 2 and '"' not in (previous, token)
        if previous is not None and index + 1 < len(found):
            joins = joins and not naive_opens(previous, token, found[index + 1][1].lower(), documents)
        text += token if joins else summary[end:start] + token
        end, previous = start + len(token), token.lower()
    for word, (start, token) in zip(naive_words(text), naive_tokens(text), strict=True):
        text = text[:start] + naive_spelling(word, words) + text[start + len(token) :]
    for start, token in naive_tokens(text):
        if naive_begins(text, start) and token == token.lower():
            text = text[:start] + token[0].upper() + text[start + 1 :]
    return text


FEW = st.text("aAbB1.?'\"-) \n", max_size=30)


@given(FEW | st.just("Dr. A al. b"), st.lists(FEW, max_size=3))
def test_a_slow_twin_finds_the_same(summary, documents):
    assert restored([summary], documents, is_split=False) == [naive(summary, documents)]


def letters(text: str) -> str:
    """A text without case, white space and accents."""
    decomposed = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]).normalize_str(text)
    return "".join(decomposed.casefold().split())


TEXTS = st.text(max_size=40) | st.text("aAbéÉ 中.?'\"-()\u0301ßŉ", max_size=40)


@given(TEXTS, st.lists(TEXTS, max_size=2), st.booleans(), st.booleans())
def test_only_case_spaces_and_accents_change_and_only_once(summary, documents, strips_accents, is_split):
    (text,) = restored([summary], documents, strips_accents, is_split)
    assert letters(text) == letters(summary)
    assert len(text.split()) <= len(summary.split())
    assert restored([text], documents, strips_accents, is_split) == [text]


def word_spans(text: str) -> set[tuple[int, str]]:
    """The words of a text between spaces, and where they start among its letters."""
    spans, start = set(), 0
    for word in text.split():
        spans.add((start, word))
        start += len(letters(word))
    return spans


@pytest.mark.thorough
@reads_shared_data("arxiv_titles")
def test_words_of_titles_are_the_authors():
    with gzip.open(SHARED_DATA / "arxiv_titles" / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    total, before, after = 0, 0, 0
    for row in rows:
        words = splitter.pre_tokenize_str(normalizer.normalize_str(row["summary"]))
        decoded = " ".join(word for word, _ in words)
        wanted = word_spans(row["summary"])
        total += len(wanted)
        before += len(wanted & word_spans(decoded))
        after += len(wanted & word_spans(restored([decoded], [row["document"]])[0]))
    # these titles are in sentence case, also in terms that their abstracts begin with capitals
    assert (round(before / total, 2), round(after / total, 2)) == (0.76, 0.93)


def test_spaces_at_the_end_of_a_document_take_linear_time():
    began = time.process_time()
    assert restored(["the parser ."], [f"The Parser is here.{' ' * 50_000}"]) == ["The Parser."]
    assert time.process_time() - began < 2
