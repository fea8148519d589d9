"""The numbers of an explanation, beside a reading of the equations subword by subword."""

import dataclasses
import itertools

import pytest
import torch

from hf_summ import DrgdConfig, DrgdForConditionalGeneration, DrgdProcessor, SummarizationPipeline
from hf_summ.data.vocabulary import fit_processor
from hf_summ.inspection import explain
from hf_summ.inspection.words import group_by_word, words_of_source, words_of_summary
from hf_summ.models.text_documents import word_table
from tests.conftest import SENTENCES, word_piece_tokenizer
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    DRGD,
    DRGD_PRINTED,
    GDLF,
    GDLF_COPY,
    HIGHLIGHT_TRANSFORMER,
    SAGCOPY,
    build_with_processor,
)

COPYING = [COPY_TRANSFORMER, COPY_TRANSFORMER_BERT, HIGHLIGHT_TRANSFORMER, SAGCOPY, DRGD_PRINTED, GDLF_COPY]
DOCUMENT = " ".join(SENTENCES[:2])
SUMMARY = "The new bridge cost 12 euros."
with_copying_models = pytest.mark.parametrize("architecture", COPYING, ids=lambda architecture: architecture.name)
TEXT = f"  {SENTENCES[0]}\n\nMüller's  12,5 km – ok? "


@pytest.fixture
def built(architecture, tiny_tokenizer):
    return build_with_processor(architecture, tiny_tokenizer)


def naive_numbers(model, processor) -> tuple[dict, list[float], torch.Tensor]:
    """The numbers of the summary's subwords, by the equations.

    Returns:
        For a subword of the summary and one of the source: the probability that the first was copied from the second,
        given the first. For each subword of the summary: its probability, and the probability of copying.
    """
    inputs = processor(DOCUMENT, return_tensors="pt")
    labels = processor(text_target=SUMMARY)["labels"]
    start = model.config.decoder_start_token_id
    scores = []
    handle = model.lm_head.register_forward_hook(lambda module, inputs, output: scores.append(output.detach()))
    with torch.no_grad():
        outputs = model(**inputs, decoder_input_ids=torch.tensor([[start, *labels[:-1]]]))
    handle.remove()
    generated = scores[0].double().softmax(-1)
    source_ids = inputs["input_ids"][0].tolist()
    origins, probabilities = {}, []
    for step, label in enumerate(labels):
        gate = float(outputs.copy_gates[0, step])
        copied = {}
        for place, token in enumerate(source_ids):
            if token == label:
                copied[place] = gate * float(outputs.copy_attentions[0, step, place])
        probability = (1 - gate) * float(generated[0, step, label]) + sum(copied.values())
        probabilities.append(probability)
        for place, copy_probability in copied.items():
            origins[step, place] = copy_probability / probability
    return origins, probabilities, outputs.copy_gates[0]


def number_of_first_tokens(processor) -> int:
    """The number of special tokens before a document."""
    first_tokens, _ = processor._special_ids()
    return len(first_tokens)


def subwords_of(word, text: str, processor) -> list[int]:
    """The places of a word's subwords among those of the text."""
    offsets = processor.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    places = []
    for place, (start, end) in enumerate(offsets):
        # a subword that is only a space covers no character, and belongs to the word that follows it
        is_space_before = start == end == word.start
        if word.start < end <= word.end or is_space_before:
            places.append(place)
    return places


@with_copying_models
def test_numbers_equal_a_naive_reading(architecture, built):
    model, processor = built
    origins, probabilities, gates = naive_numbers(model, processor)
    explanation = explain(model, processor, DOCUMENT, SUMMARY)
    # special tokens precede the document, and in SAGCopy also the summary
    source_start = number_of_first_tokens(processor)
    target_start = source_start if architecture is SAGCOPY else 0
    source_places = []
    for word in explanation.source_words:
        source_places.append([source_start + place for place in subwords_of(word, DOCUMENT, processor)])
    assert [word.text for word in explanation.summary_words] == ["The", "new", "bridge", "cost", "12", "euros", "."]
    for word in explanation.summary_words:
        places = [target_start + place for place in subwords_of(word, SUMMARY, processor)]
        assert places
        assert word.probability == pytest.approx(torch.tensor(probabilities)[places].prod().item(), rel=1e-4)
        assert word.gate == pytest.approx(gates[places].mean().item(), rel=1e-4)
        expected = []
        for positions in source_places:
            pairs = itertools.product(places, positions)
            expected.append(sum(origins.get(pair, 0.0) for pair in pairs) / len(places))
        assert word.copied == pytest.approx(sum(expected), rel=1e-3, abs=1e-9)
        likely = [share for share in sorted(expected, reverse=True) if share >= 0.005]
        assert [share for _, share in word.origins] == pytest.approx(likely[:8], rel=1e-3)
        for number, share in word.origins:
            assert share == pytest.approx(expected[number], rel=1e-3)
    # the end token is no word
    written = range(target_start, len(probabilities) - 1)
    for word, positions in zip(explanation.source_words, source_places, strict=True):
        probabilities_of_copying = []
        for place in positions:
            never = 1.0
            for step in written:
                never *= 1 - origins.get((step, place), 0.0)
            probabilities_of_copying.append(1 - never)
        assert word.values["copied"] == pytest.approx(max(probabilities_of_copying), rel=1e-3, abs=1e-6)
    assert 0 < explanation.copied_share < 1


@pytest.mark.thorough
@with_copying_models
def test_the_summary_is_that_of_the_pipeline(built):
    model, processor = built
    summarizer = SummarizationPipeline(model=model, tokenizer=processor.tokenizer, processor=processor)
    for document in (DOCUMENT, SENTENCES[:3]):
        texts = document if isinstance(document, str) else [document]
        (record,) = summarizer(texts, max_new_tokens=12)
        explanation = explain(model, processor, document, **summarizer.generation_settings(max_new_tokens=12))
        # the explanation keeps white space at the ends
        assert explanation.summary.strip() == record["summary_text"]
        assert {word.document for word in explanation.source_words} == set(range(len(explanation.documents)))
        for word in explanation.source_words:
            assert explanation.documents[word.document][word.start : word.end] == word.text


@pytest.mark.thorough
@with_copying_models
def test_attention_to_words_and_between_them(architecture, built):
    model, processor = built
    values = [word.values for word in explain(model, processor, DOCUMENT, SUMMARY).source_words]
    names = {"copied", "attention_of_summary"}
    if architecture not in (DRGD_PRINTED, GDLF_COPY):
        # the encoders of these two have no attention
        names.add("attention_of_source")
    if architecture.name == "highlight_transformer":
        names.add("phrase_value")
    if architecture.name == "sagcopy":
        names.add("centrality")
    for values_of_word in values:
        assert set(values_of_word) == names
    for name in names - {"copied", "phrase_value"}:
        attention = [values_of_word[name] for values_of_word in values]
        # the rest of the attention is on special tokens
        assert 0.5 < sum(attention) <= 1.0 + 1e-6
        assert min(attention) > 0


@pytest.mark.parametrize("architecture", [SAGCOPY])
def test_centrality_is_the_models_own(built):
    model, processor = built
    start = torch.tensor([[model.config.bos_token_id]])
    outputs = model(**processor(DOCUMENT, return_tensors="pt"), decoder_input_ids=start)
    words = explain(model, processor, DOCUMENT).source_words
    # the special tokens at both ends are left out
    expected = outputs.centrality[0, number_of_first_tokens(processor) : -1].sum().item()
    assert sum(word.values["centrality"] for word in words) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("architecture", [SAGCOPY])
def test_links_are_the_edges_of_the_self_attention_graph(built):
    model, processor = built
    model.set_attn_implementation("eager")
    inputs = processor(DOCUMENT, return_tensors="pt")
    graph = model.get_encoder()(**inputs, output_attentions=True).attentions[-1][0].mean(0)
    encoded = processor.tokenizer(DOCUMENT, add_special_tokens=False, return_offsets_mapping=True)
    table = word_table(processor.tokenizer, model.config.vocab_size)
    first_tokens = number_of_first_tokens(processor)
    spans = []
    for word in words_of_source(DOCUMENT, encoded["input_ids"], encoded["offset_mapping"], table):
        spans.append([first_tokens + index for index in word.subwords])
    words = explain(model, processor, DOCUMENT).source_words
    for word, span in zip(words, spans, strict=True):
        # from the word's subwords to those of each word
        weights = []
        for target_span in spans:
            edges = [float(graph[i, j]) for i, j in itertools.product(span, target_span)]
            weights.append(sum(edges) / len(span))
        best = sorted(range(len(words)), key=lambda number: -weights[number])[:4]
        assert [number for number, _ in word.links] == best
        assert [weight for _, weight in word.links] == pytest.approx([weights[number] for number in best], rel=1e-4)


@pytest.mark.parametrize("architecture", [HIGHLIGHT_TRANSFORMER])
def test_phrases_have_their_values(built):
    model, processor = built
    given = explain(model, processor, DOCUMENT, phrases={"Ana Lopez": 0.5, "Lopez opened": -2.0})
    values = {word.text: word.values["phrase_value"] for word in given.source_words}
    assert {word: value for word, value in values.items() if value} == {"Ana": 0.5, "Lopez": -2.0, "opened": -2.0}
    # without phrases, those of the document are found, among them phrases that were never fitted
    found = explain(model, processor, DOCUMENT)
    values = [(word.text, word.values["phrase_value"]) for word in found.source_words]
    for word, value in values:
        if word in ("Ana", "Lopez"):
            assert value > 0
    assert 0 in [value for _, value in values]


@pytest.mark.parametrize("architecture", [COPY_TRANSFORMER])
def test_what_was_cut_off_was_never_read(built):
    model, processor = built
    processor.max_source_length = 12
    explanation = explain(model, processor, DOCUMENT, "flood opened")
    is_read = [word.is_read for word in explanation.source_words]
    assert is_read == sorted(is_read, reverse=True)
    assert 1 < sum(is_read) < len(is_read)
    for word in explanation.source_words:
        assert bool(word.values) == word.is_read
    # "opened" is in the source, and "flood" is not
    assert [word.is_novel for word in explanation.summary_words] == [True, False]


@pytest.mark.parametrize("architecture", [SAGCOPY])
def test_a_given_summary_is_explained_to_its_end(built):
    model, processor = built
    expected = explain(model, processor, DOCUMENT, SUMMARY)
    assert "".join(word.text for word in expected.summary_words) == SUMMARY.replace(" ", "")
    # the limit of summaries in training, which the given summary exceeds
    processor.max_target_length = 4
    assert explain(model, processor, DOCUMENT, SUMMARY) == expected
    with pytest.raises(ValueError, match=r"^the text has \d+ tokens, but the model has 512 positions$"):
        explain(model, processor, DOCUMENT, 200 * SUMMARY)


def test_words_are_novel_as_the_tokenizer_sees_them():
    document = "Müller opened the bridge"
    tokenizer = word_piece_tokenizer([document] * 5, vocab_size=100)
    model, processor = build_with_processor(COPY_TRANSFORMER, tokenizer)
    explanation = explain(model, processor, document, "MULLER opened a bridge")
    novel = {word.text: word.is_novel for word in explanation.summary_words}
    assert novel == {"muller": False, "opened": False, "[UNK]": True, "bridge": False}


def recurrent_model_of_words():
    processor = DrgdProcessor(fit_processor(["a vocabulary of other words"] * 2, units="words", tags="none").tokenizer)
    config = DrgdConfig(embedding_size=6, hidden_size=8, latent_size=0, copy=True)
    processor.align(config)
    return DrgdForConditionalGeneration(config).eval(), processor


def test_copied_words_that_the_vocabulary_lacks_are_shown_with_their_origins():
    model, processor = recurrent_model_of_words()
    # always copy
    model.model.decoder.copy_gate.bias.data.fill_(20.0)
    shown = explain(model, processor, "Lopez", max_new_tokens=1)
    assert (shown.summary, [word.text for word in shown.summary_words]) == ("Lopez", ["Lopez"])
    assert shown.summary_words[0].origins == [(0, pytest.approx(1.0, abs=1e-5))]
    assert not shown.summary_words[0].is_novel
    # of a given summary, those that the document has
    given = explain(model, processor, "Lopez sang words", summary="other Lopez slept").summary_words
    assert [word.text for word in given] == ["other", "Lopez", "<unk>"]
    assert [word.is_novel for word in given] == [True, False, True]


def test_unknown_words_are_shown_as_they_were_replaced():
    model, processor = recurrent_model_of_words()
    # as in a checkpoint that does not tell them apart
    model.config.unknown_ids = processor.unknown_ids = 0
    model.lm_head.bias.data[processor.tokenizer.unk_token_id] = 9.0
    (shown,) = explain(model, processor, "Lopez", replace_unk=True, max_new_tokens=1).summary_words
    assert shown.text == "Lopez"
    assert shown.origins[0][0] == 0
    (kept,) = explain(model, processor, "Lopez", replace_unk=False, max_new_tokens=1).summary_words
    assert kept == dataclasses.replace(shown, text="<unk>", is_novel=True, end=5)


@pytest.mark.parametrize("architecture", [SAGCOPY])
def test_a_checkpoint_that_asks_for_more_gives_its_best_summary(built):
    model, processor = built
    expected = explain(model, processor, DOCUMENT, num_beams=2)
    model.generation_config.update(num_beams=2, num_return_sequences=2, return_dict_in_generate=True)
    assert explain(model, processor, DOCUMENT) == expected


@pytest.mark.parametrize("architecture", [SAGCOPY])
def test_the_prefix_of_a_checkpoint_is_read(built):
    model, processor = built
    expected = explain(model, processor, f"summarize: {DOCUMENT}")
    assert explain(model, processor, DOCUMENT, source_prefix="summarize: ") == expected
    model.config.prefix = "summarize: "
    assert explain(model, processor, DOCUMENT) == expected
    assert explain(model, processor, f"summarize: {DOCUMENT}", source_prefix="") == expected


@pytest.mark.parametrize("architecture", [SAGCOPY])
def test_the_model_is_left_as_it_was(built):
    model, processor = built
    model.train()
    explain(model, processor, DOCUMENT)
    assert model.training
    assert model.config._attn_implementation == "sdpa"


def test_models_that_do_not_copy_and_blank_texts_are_refused(tiny_tokenizer):
    for architecture in (GDLF, DRGD):
        model, processor = build_with_processor(architecture, tiny_tokenizer)
        with pytest.raises(ValueError, match=f"a {architecture.model_type} that does not copy.*with `copy` set$"):
            explain(model, processor, DOCUMENT)
    built = build_with_processor(SAGCOPY, tiny_tokenizer)
    for document in (" \n", "", ["", " "]):
        with pytest.raises(ValueError, match="the text is blank"):
            explain(*built, document)
    with pytest.raises(ValueError, match="the summary is blank"):
        explain(*built, DOCUMENT, " ")


def words_of(tokenizer, text: str) -> list[str]:
    """The words of a text, which do not overlap and share no subwords."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    table = word_table(tokenizer, len(tokenizer))
    words = words_of_source(text, encoded["input_ids"], encoded["offset_mapping"], table)
    previous_end = 0
    places = []
    for word in words:
        assert previous_end <= word.start < word.end
        previous_end = word.end
        places.extend(word.subwords)
    assert len(places) == len(set(places))
    return [text[word.start : word.end] for word in words]


def test_words_are_apart_at_spaces_and_between_kinds_of_characters(tiny_tokenizer):
    word_pieces = word_piece_tokenizer([*SENTENCES, "Müller's 12,5 km – ok?"], vocab_size=200)
    for tokenizer in (tiny_tokenizer, word_pieces):
        words = words_of(tokenizer, TEXT)
        assert words[:5] == ["Mayor", "Ana", "Lopez", "opened", "the"]
        assert words[-10:] == ["Müller", "'", "s", "12", ",", "5", "km", "–", "ok", "?"]


def test_words_of_a_vocabulary_of_characters(tiny_tokenizer):
    tokenizer = fit_processor(["我国服务贸易规模稳步增长"] * 2, units="ideographs", tags="none").tokenizer
    assert words_of(tokenizer, "我国 服务") == ["我", "国", "服", "务"]
    # an empty text has no words
    assert words_of(tiny_tokenizer, "") == []
    table = word_table(tiny_tokenizer, len(tiny_tokenizer))
    assert group_by_word([], table) == []


def test_a_summarys_words_are_found_whatever_its_spaces():
    pieces = ["it", "'", "s", "(", "so", ")"]
    assert words_of_summary(" it's (so)", pieces) == [(1, 3), (3, 4), (4, 5), (6, 7), (7, 9), (9, 10)]
    assert words_of_summary("ab", ["", "a b"]) == [(0, 0), (0, 2)]
    with pytest.raises(ValueError, match="'c' is not next in 'b'"):
        words_of_summary("ab", ["a", "c"])
