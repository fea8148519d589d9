"""Key phrases: what is found, what a user gives, and where they stand among the subwords."""

import logging
import math
import random
from collections import Counter

import pytest
import torch
from transformers import pipeline

from hf_summ.data import fit_vocabulary
from hf_summ.models.processing_highlight_transformer import HighlightTransformerProcessor
from hf_summ.models.text_processing_highlight_transformer import (
    STOP_WORDS,
    candidates,
    document_frequencies,
    kept_text,
    kept_texts,
    key_phrases,
    locate_phrases,
)
from hf_summ.runtimes.examples import Example
from hf_summ.training.rows.preparing import encode
from tests.conftest import SENTENCES
from tests.models.architectures import HIGHLIGHT_TRANSFORMER, build_with_processor

WORDS = "bridge river mayor Lopez flood bus school tree sheep coin house wall guard cake chess year cost toll".split()


def made_up(examples: int, seed: int = 0) -> list[list[str]]:
    """Examples of two texts without stop words, with commas between some words."""
    generator = random.Random(seed)
    rows = []
    for _ in range(examples):
        documents = []
        for _ in range(2):
            text = ""
            for _ in range(30):
                text += generator.choice(WORDS)
                text += generator.choice((" ", " ", "-", ", "))
            documents.append(text)
        rows.append(documents)
    return rows


def candidate_phrases(documents: list[str]) -> list[str]:
    """The candidates of all documents of an example, in the order in which they occur."""
    phrases = []
    for text in documents:
        for phrase, _, _ in candidates(text):
            phrases.append(phrase)
    return phrases


def values_of_row(matrix, vectorizer, row: int) -> dict[str, float]:
    """The TF-IDF values above zero that scikit-learn gives the phrases of an example."""
    values = {}
    for phrase, column in vectorizer.vocabulary_.items():
        if matrix[row, column]:
            values[phrase] = matrix[row, column]
    return values


# A text, and its candidates with what each covers of it.
CASES_OF_CANDIDATES = [
    ("Mayor Lopez", [("mayor lopez", "Mayor Lopez")]),
    # in the order of their first words, short ones first
    ("old town hall", [("old town", "old town"), ("old town hall", "old town hall"), ("town hall", "town hall")]),
    ("the old-town  bus", [("old town", "old-town"), ("old town bus", "old-town  bus"), ("town bus", "town  bus")]),
    # nothing stands across a stop word, a comma, a word of one letter or the end of a sentence
    ("flood of water", []),
    ("flood, water", []),
    ("flood a water", []),
    ("Flood. Water", []),
    ("one word", []),
    ("", []),
    # vowel signs are in their words
    ("मुंबई में", [("मुंबई में", "मुंबई में")]),
]


@pytest.mark.parametrize(("text", "phrases"), CASES_OF_CANDIDATES)
def test_candidates(text, phrases):
    found = [(phrase, text[start:end]) for phrase, start, end in candidates(text)]
    assert found == phrases


def test_stop_words_are_scikit_learns():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    assert text.ENGLISH_STOP_WORDS == STOP_WORDS


@pytest.mark.thorough
def test_values_are_scikit_learns():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    examples = made_up(40)
    # it takes one text an example, and knows no commas, so it gets our candidates
    lists = [candidate_phrases(documents) for documents in examples]
    vectorizer = text.TfidfVectorizer(analyzer=lambda phrases: phrases)
    matrix = vectorizer.fit_transform(lists)
    frequencies, number = document_frequencies(examples)
    assert number == 40
    counts = Counter()
    for phrases in lists:
        counts.update(set(phrases))
    assert frequencies == {phrase: count for phrase, count in sorted(counts.items()) if count > 1}
    for row, documents in enumerate(examples):
        values = values_of_row(matrix, vectorizer, row)
        phrases = key_phrases(documents, frequencies, number, number=10**6)
        assert {phrase.text: phrase.value for phrase in phrases} == pytest.approx(values)
        # the best first, ties by first occurrence
        order = list(dict.fromkeys(lists[row]))
        expected = sorted(values, key=lambda phrase: (-round(values[phrase], 9), order.index(phrase)))
        assert [phrase.text for phrase in key_phrases(documents, frequencies, number)] == expected[:10]


def test_without_stop_words_phrases_and_values_are_scikit_learns_own():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    examples = [["Mayor of the Lopez, a bridge. Cost: 12 million"]]
    for start in range(4):
        examples.append([" ".join(SENTENCES[start:])])
    vectorizer = text.TfidfVectorizer(stop_words="english", ngram_range=(2, 3))
    matrix = vectorizer.fit_transform([documents[0] for documents in examples])
    frequencies, number = document_frequencies(examples, skip_stop_words=True)
    for row, documents in enumerate(examples):
        values = values_of_row(matrix, vectorizer, row)
        phrases = key_phrases(documents, frequencies, number, number=10**6, skip_stop_words=True)
        assert {phrase.text: phrase.value for phrase in phrases} == pytest.approx(values)
    # a phrase's characters include what is between its words
    document = examples[0][0]
    covered = {phrase: document[start:end] for phrase, start, end in candidates(document, skip_stop_words=True)}
    assert covered["mayor lopez"] == "Mayor of the Lopez"
    assert covered["lopez bridge cost"] == "Lopez, a bridge. Cost"


def test_processor_keeps_the_order_in_which_phrases_are_formed(tiny_tokenizer, tmp_path):
    processor = HighlightTransformerProcessor(tiny_tokenizer, skip_stop_words=True)
    processor.fit(["flood of water"] * 2)
    processor.save_pretrained(tmp_path)
    processor = HighlightTransformerProcessor.from_pretrained(tmp_path)
    row = processor("flood of water")
    ((start, end),) = zip(row["phrase_starts"], row["phrase_ends"], strict=True)
    assert processor.decode(row["input_ids"][start:end]).strip() == "flood of water"


def test_frequencies_begin_at_two_and_have_a_cap():
    frequencies, number = document_frequencies([["new bridge"], ["new bridge, old bus"], ["old bus"], ["new bridge"]])
    assert (frequencies, number) == ({"new bridge": 3, "old bus": 2}, 4)
    assert document_frequencies([["new bridge"]] * 3 + [["old bus"]] * 2, largest=1)[0] == {"new bridge": 3}


def test_phrases_stand_where_their_subwords_are(tiny_tokenizer):
    processor = HIGHLIGHT_TRANSFORMER.processor(tiny_tokenizer)
    text = "Mayor Ana Lopez opened the new bridge. Nobody expected Ana  Lopez to do so."
    row = processor(text)
    spans = list(zip(row["phrase_starts"], row["phrase_ends"], row["phrase_values"], strict=True))
    decoded = [processor.decode(row["input_ids"][start:end]).strip() for start, end, _ in spans]
    # white space of a document is one space to the model
    read_text = text.replace("  ", " ")
    expected_texts, expected_values = [], []
    for phrase in key_phrases([read_text], processor.document_frequencies, processor.fitted_examples):
        for _, start, end in phrase.spans:
            expected_texts.append(read_text[start:end])
            expected_values.append(phrase.value)
    assert decoded == expected_texts
    assert decoded.count("Ana Lopez") == 2
    assert [value for _, _, value in spans] == expected_values


def test_each_document_has_its_phrases_and_separators_are_in_none(tiny_tokenizer):
    processor = HIGHLIGHT_TRANSFORMER.processor(tiny_tokenizer)
    row = processor([["The old bridge", "river flood. Old bridge"]])
    ids, separator = row["input_ids"][0], processor.separator_token_id
    texts = []
    for start, end in zip(row["phrase_starts"][0], row["phrase_ends"][0], strict=True):
        assert 0 <= start < end <= len(ids)
        assert separator not in ids[start:end]
        texts.append(processor.decode(ids[start:end]).strip())
    # what occurs twice has the highest tf, and stands in both
    assert texts == ["old bridge", "Old bridge", "river flood"]


def test_only_what_is_left_after_the_cut_is_searched(tiny_tokenizer):
    processor = HIGHLIGHT_TRANSFORMER.processor(tiny_tokenizer)
    text = "river flood, and the new quartz of Ana Lopez"
    whole = processor(text)["input_ids"]
    kept = next(length for length in range(len(whole)) if processor.decode(whole[:length]).endswith("new qu"))
    row = processor(text, max_length=kept + 1)
    # not even the start of a word, which is another word
    spans = zip(row["phrase_starts"], row["phrase_ends"], strict=True)
    assert [processor.decode(row["input_ids"][start:end]).strip() for start, end in spans] == ["river flood"]


@pytest.mark.parametrize("skip_stop_words", [False, True])
def test_key_phrases_are_those_of_the_documents_without_a_prefix(tiny_tokenizer, skip_stop_words):
    settings = {"num_phrases": 3, "skip_stop_words": skip_stop_words}
    model, processor = build_with_processor(HIGHLIGHT_TRANSFORMER, tiny_tokenizer, **settings)
    summarizer = pipeline("summarization", model=model, processor=processor)
    documents = ["Mayor Ana Lopez opened the new bridge.", "Nobody expected Ana Lopez to write a news article."]
    alone = processor([documents])
    prefix = "Summarize news article: "
    number = len(tiny_tokenizer(prefix.strip(), add_special_tokens=False)["input_ids"])
    rows = {"documents": [documents], "summary": ["a"]}
    encoded = encode(rows, processor, (500, 20), prefix)
    read = summarizer.read(Example(documents), source_prefix=prefix).inputs
    for field in ("phrase_starts", "phrase_ends"):
        expected = [position + number for position in alone[field][0]]
        assert encoded[field] == [expected]
        assert read[field] == expected
    assert encoded["phrase_values"] == alone["phrase_values"]
    assert read["phrase_values"] == alone["phrase_values"][0]


def test_users_phrases_have_their_values(tiny_tokenizer, caplog):
    processor = HIGHLIGHT_TRANSFORMER.processor(tiny_tokenizer)

    def spans(row):
        phrases = []
        for start, end, value in zip(row["phrase_starts"], row["phrase_ends"], row["phrase_values"], strict=True):
            phrases.append((processor.decode(row["input_ids"][start:end]).strip(), value))
        return phrases

    text = "Mayor Ana Lopez opened the new-bridge. ANA LOPEZ left the Lopezes."
    row = processor(text, phrases={"ana lopez": 2, "new bridge": -0.5, "of no value": 0})
    assert spans(row) == [("Ana Lopez", 2.0), ("ANA LOPEZ", 2.0), ("new-bridge", -0.5)]
    # a list has the value 1; stop words and the whole text are phrases like any other
    assert spans(processor(text, phrases=["the", text])) == [("the", 1.0), ("the", 1.0), (text, 1.0)]
    # the column of a single text has JSON, as a longer column
    for json_text, value in (('{"new bridge": -0.5}', -0.5), (' ["new bridge"]', 1.0)):
        assert spans(processor(text, phrases=[json_text])) == [("new-bridge", value)]
        rows = processor([text, text], phrases=[json_text] * 2)
        assert rows["phrase_values"] == [[value], [value]]
    # none at all, and those that are found
    rows = processor([text, text], phrases=[{}, None])
    assert rows["phrase_starts"][0] == []
    assert rows["phrase_starts"][1] == processor(text)["phrase_starts"]
    with caplog.at_level(logging.WARNING, logger="transformers"):
        logging.getLogger("transformers").addHandler(caplog.handler)
        assert processor(text, phrases={"Ben": 1.0}, max_length=12)["phrase_starts"] == []
        assert processor(text, phrases=["lopezes"], max_length=12)["phrase_starts"] == []
    assert "the phrase 'Ben' does not occur in the text, and is ignored" in caplog.text
    assert "the phrase 'lopezes' occurs only in the truncated part, and is ignored" in caplog.text


def test_a_phrase_ends_after_the_accents_of_its_last_word():
    text = "Ana opened the Cafe\u0301 Rene\u0301 today"
    tokenizer = fit_vocabulary([text], units="words", min_frequency=1, show_progress=False)
    processor = HIGHLIGHT_TRANSFORMER.processor(tokenizer)
    row = processor(text, phrases=["Cafe\u0301 Rene\u0301"], max_length=6)
    # the phrase is all that the truncation keeps
    assert (row["phrase_starts"], row["phrase_ends"]) == ([3], [5])
    (source,) = processor.read_sources([text], 6, with_offsets=True)
    assert kept_texts(source) == ["Ana opened the Cafe\u0301 Rene\u0301"]


def test_users_phrases_stand_where_their_words_are():
    (phrase,) = locate_phrases(["a -- b"], ["--"])
    assert phrase.spans == ((0, 2, 4),)
    # user's phrases of Chinese need no spaces
    (phrase,) = locate_phrases(["上海市长周一宣布"], {"市长": 1.0})
    assert phrase.spans == ((0, 2, 4),)
    # the second document's word goes on with a vowel sign, the third's with a letter
    spans = [phrase.spans for phrase in locate_phrases(["बड़ी नदी है", "बड़ी नदीं", "बड़ी नदीक"], ["बड़ी नदी"])]
    assert spans == [((0, 0, len("बड़ी नदी")),)]


# A text without spaces between words, a phrase, and how often it occurs.
CASES_OF_UNSPACED = [
    ("ในกรุงเทพมหานคร ฝนตก", "กรุงเทพ", 1),
    # after a tone mark
    ("ที่มหานคร", "มหานคร", 1),
    # the next letter's tone mark belongs to the phrase's last letter
    ("เท่าไร", "เท", 0),
    ("ຢູ່ວຽງຈັນແລ້ວ", "ວຽງຈັນ", 1),
    ("នៅភ្នំពេញថ្ងៃនេះ", "ភ្នំពេញ", 1),
    ("သူရန်ကုန်မြို့မှာ", "ရန်ကုန်", 1),
    ("𠮷野家と𠮷田", "野家", 1),
    ("𠮷野家と𠮷田", "𠮷田", 1),
    ("⺁字ㄅ字", "字", 2),
    # a mark of kana before the phrase, and one after it
    ("か\u3099東京", "東京", 1),
    ("東京か\u3099", "東京か", 0),
    ("ใช้iPhoneและiPhones", "iPhone", 1),
    ("서울에서 서울", "서울", 1),
]


@pytest.mark.parametrize(("text", "phrase", "number"), CASES_OF_UNSPACED)
def test_users_phrases_of_scripts_without_spaces(text, phrase, number):
    (located,) = locate_phrases([text], [phrase])
    assert [text[start:end] for _, start, end in located.spans] == [phrase] * number


CASES_OF_UNUSABLE_PHRASES = [
    ({"a": math.nan}, ValueError, "a phrase must be text with a finite value, but there is 'a': nan"),
    ({3: 1.0}, ValueError, "a phrase must be text with a finite value, but there is 3: 1.0"),
    ([" "], ValueError, "a phrase must be text with a finite value, but there is ' ': 1.0"),
    ("a", ValueError, "`phrases` must be JSON such as {\"TEXT\": VALUE}, but is 'a'"),
    ([3], TypeError, "`phrases` must be a mapping of texts to values or a list of texts, but is 3"),
    ([None, None], ValueError, "there are phrases for 2 examples, but 1 examples: give each its own"),
]


@pytest.mark.parametrize(("phrases", "error", "message"), CASES_OF_UNUSABLE_PHRASES)
def test_unusable_phrases_are_refused(tiny_tokenizer, phrases, error, message):
    with pytest.raises(error) as caught:
        HIGHLIGHT_TRANSFORMER.processor(tiny_tokenizer)(SENTENCES[0], phrases=phrases)
    assert str(caught.value) == message


def test_without_frequencies_phrases_must_be_given(tiny_tokenizer):
    processor = HighlightTransformerProcessor(tiny_tokenizer)
    with pytest.raises(ValueError, match=r"fit them with `hf-summ key-phrases CORPUS --processor FOLDER --output FOLD"):
        processor(SENTENCES)
    assert processor(SENTENCES[0], phrases={})["phrase_starts"] == []
    with pytest.raises(ValueError, match=r"^`num_phrases` is 0, but must be at least 1$"):
        HighlightTransformerProcessor(tiny_tokenizer, num_phrases=0)


PADDINGS = [{"padding": "max_length", "max_length": 40}, {"pad_to_multiple_of": 8}, {}]


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_phrases_are_padded_to_their_own_longest_row(tiny_tokenizer, padding):
    processor = HIGHLIGHT_TRANSFORMER.processor(tiny_tokenizer)
    batch = processor(["old bridge", "no", "river flood, old bridge"], return_tensors="pt", **padding)
    assert {batch[name].shape for name in processor.unaligned_fields} == {(3, 2)}
    nothing = processor(["no", "no"], return_tensors="pt", **padding)
    assert {nothing[name].shape for name in processor.unaligned_fields} == {(2, 1)}
    assert nothing["phrase_starts"].dtype == nothing["phrase_ends"].dtype == torch.int64
    assert nothing["phrase_values"].dtype == torch.float32


@pytest.mark.parametrize("text", ["old bridges fell", "सरकार ने सड़कें"])
def test_a_truncated_word_is_not_kept(text):
    ends = [index for index, character in enumerate(text) if character == " "]
    for end in range(len(text)):
        kept = kept_text(text, [(0, end)])
        assert text.startswith(kept)
        # the longest text up to `end` that ends before or behind a space
        lengths = [0]
        for index in ends:
            lengths.append(index)
            lengths.append(index + 1)
        assert len(kept) == max(length for length in lengths if length <= end)
