"""Whole sentences: the choice of the likeliest one among the candidates of a text, by every door."""

import copy

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import BartConfig, BartForConditionalGeneration, pipeline

from hf_summ.data import fit_vocabulary
from hf_summ.inspection import explain
from hf_summ.models import pipeline_summarization
from hf_summ.models.generation_sentences import Candidate, candidates_of, chosen_text, likeliest, text_of
from hf_summ.models.text_candidates import sentence_candidates
from tests.conftest import SENTENCES, run_python, save
from tests.models.architectures import ARCHITECTURES, DRGD, GDLF, POINTER_GENERATOR, build_with_processor
from tests.reports.tiny_models import foreign


def test_of_equally_likely_sentences_a_pair_is_chosen():
    first, second = "We propose a rank for sand.", "We show that the rank is fair."
    merits = sentence_candidates(f"{first} {second}")
    candidates = [Candidate(text, [1] * 6, merit) for text, merit in merits.items()]
    log_probs = np.full((3, 6), -1.0)
    pair = "We propose a rank for sand and show that the rank is fair."
    assert likeliest(candidates, log_probs).text == pair


def test_a_limit_below_every_sentence_cuts_the_first_one(tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    summarizer = pipeline("summarization", model=model, processor=processor)
    (record,) = summarizer(SENTENCES[0], whole_sentences=True, max_new_tokens=4, return_details=True)
    expected = tiny_tokenizer.decode(tiny_tokenizer(SENTENCES[0], add_special_tokens=False)["input_ids"][:4])
    assert record["summary_text"] == expected.strip()
    assert record["details"]["finish_reason"] == "length"


def test_a_lone_surrogate_is_replaced(tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    summarizer = pipeline("summarization", model=model, processor=processor)
    settings = {"whole_sentences": True, "max_new_tokens": 60}
    expected = summarizer(SENTENCES[0].replace(" ", " \ufffd ", 1), **settings)
    assert summarizer(SENTENCES[0].replace(" ", " \ud83d ", 1), **settings) == expected


def test_a_score_is_the_mean_log_probability_plus_the_merit():
    candidates = [Candidate("short", [1] * 2, merit=0.5), Candidate("long", [1] * 6, merit=0.3)]
    log_probs = np.array([[-1.0, -1.0, 0.0, 0.0, 0.0, 0.0], [-0.9] * 6])
    # -1.0 + 0.5 and -0.9 + 0.3
    assert likeliest(candidates, log_probs).text == "short"
    log_probs[1] = -0.7
    assert likeliest(candidates, log_probs).text == "long"


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_the_likeliest_candidate_is_chosen(architecture, tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    documents = [" ".join(SENTENCES), " ".join(SENTENCES[3:])]
    summarizer = pipeline("summarization", model=model, processor=processor)
    # penalties of a beam search, which do not apply
    model.generation_config.length_penalty = 3.0
    model.generation_config.gnmt_length_penalty = 2.1
    records = summarizer(documents, batch_size=2, whole_sentences=True, max_new_tokens=60)
    for document, record in zip(documents, records, strict=True):
        scores = {}
        for candidate, merit in sentence_candidates(document).items():
            # one at a time, by the model's loss: the mean of the negative log-probabilities
            inputs = processor(document, text_target=candidate, return_tensors="pt")
            scores[candidate] = merit - model(**inputs).loss_parts["nll"].item()
        assert len(scores) > 1
        assert record["summary_text"] == max(scores, key=scores.__getitem__)


def test_generate_decodes_the_source_and_returns_ids(tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer, tags="none")
    model.config.tags = "none"
    inputs = processor([SENTENCES[0], SENTENCES[2]], return_tensors="pt")
    ids = model.generate(**inputs, tokenizer=processor, whole_sentences=True, num_beams=3, max_new_tokens=60)
    assert [text.strip() for text in processor.batch_decode(ids, skip_special_tokens=True)] == [
        SENTENCES[0],
        SENTENCES[2],
    ]


CASES_OF_SEARCH_SETTINGS = [
    {"do_sample": True},
    {"output_scores": True, "return_dict_in_generate": True},
    {"num_return_sequences": 2},
]


@pytest.mark.parametrize("settings", CASES_OF_SEARCH_SETTINGS, ids=str)
def test_settings_of_a_search_are_refused_beside_it(settings, tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer, tags="none")
    model.config.tags = "none"
    inputs = processor(SENTENCES[0], return_tensors="pt")
    with pytest.raises(ValueError, match="whole_sentences"):
        model.generate(**inputs, tokenizer=processor, whole_sentences=True, num_beams=2, **settings)


def test_models_of_transformers_choose_too(tiny_tokenizer):
    special = {"pad_token_id": tiny_tokenizer.pad_token_id, "eos_token_id": tiny_tokenizer.eos_token_id}
    special |= {"bos_token_id": tiny_tokenizer.bos_token_id, "decoder_start_token_id": tiny_tokenizer.eos_token_id}
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    config = BartConfig(vocab_size=len(tiny_tokenizer), **sizes, **special, forced_eos_token_id=None)
    model = BartForConditionalGeneration(config).eval()
    summarizer = pipeline("summarization", model=model, tokenizer=tiny_tokenizer, whole_sentences=True)
    texts = [" ".join(SENTENCES), SENTENCES[2]]
    records = summarizer(texts, batch_size=2, max_new_tokens=60)
    for text, record in zip(texts, records, strict=True):
        assert record["summary_text"] in sentence_candidates(text)


# T5Gemma, PLBART and mBART have no `decoder_start_token_id` by default
def test_sentences_begin_with_the_token_with_which_transformers_begins(tiny_tokenizer):
    torch.manual_seed(0)
    model = foreign("bart", tiny_tokenizer, init_std=0.5, bos_token_id=tiny_tokenizer.bos_token_id)
    texts = [" ".join(SENTENCES), " ".join(SENTENCES[3:])]
    rows = {}
    for start_id in (None, tiny_tokenizer.bos_token_id, tiny_tokenizer.unk_token_id):
        model.generation_config.decoder_start_token_id = start_id
        summarizer = pipeline("summarization", model=model, tokenizer=tiny_tokenizer, whole_sentences=True)
        records = summarizer(texts, max_new_tokens=60, return_tensors=True, return_text=True)
        rows[start_id] = [(record["summary_token_ids"].tolist(), record["summary_text"]) for record in records]
    assert rows[None] == rows[tiny_tokenizer.bos_token_id]
    assert rows[None] != rows[tiny_tokenizer.unk_token_id]


# a pair of them would say of the network what is said of another one
NETWORK = "We present FooNet, a network for parsing mixed languages without a treebank."
RIVAL = "The proposed method is ten times slower than all the baselines and fails on Chinese texts."


def test_no_door_pairs_sentences_of_different_documents(tiny_tokenizer):
    model, processor = build_with_processor(POINTER_GENERATOR, tiny_tokenizer)
    settings = {"whole_sentences": True, "max_new_tokens": 200}
    summarizer = pipeline("summarization", model=model, processor=processor)
    # the pair has the highest merit
    assert summarizer(f"{NETWORK} {RIVAL}", **settings)[0]["summary_text"].startswith(f"{NETWORK[:-1]}, and the ")
    example = [NETWORK, RIVAL]
    (record,) = summarizer([example], **settings)
    assert record["summary_text"] in example
    alone = pipeline_summarization.SummarizationPipeline(model, processor=processor)
    assert alone([example], **settings) == [record]
    assert alone([example, RIVAL], batch_size=2, **settings) == [record, {"summary_text": RIVAL}]
    assert explain(model, processor, example, **settings).summary == record["summary_text"]
    inputs = processor([example], return_tensors="pt")
    for candidates in (None, [example]):
        ids = model.generate(**inputs, tokenizer=processor, candidates=candidates, **settings)
        assert chosen_text(ids[0], example, tiny_tokenizer, special_tokens=False) == record["summary_text"]
        assert processor.batch_decode(ids, skip_special_tokens=True)[0].strip() == record["summary_text"]


# each sentence has names, which a vocabulary of words lacks below
NAMED = "Ana Lopez of the army opened the crossing. Bo Quux of the navy paid the builders of the bridge."
VOCABULARIES = {
    "words": fit_vocabulary(
        [NAMED.replace("Ana Lopez", "").replace("Bo Quux", "")] * 2, units="words", show_progress=False
    ),
    "lower case": fit_vocabulary([NAMED] * 2, vocab_size=300, lowercase=True, show_progress=False),
}
with_vocabularies = pytest.mark.parametrize("name", VOCABULARIES)


@with_vocabularies
def test_sentences_are_those_of_the_text_whatever_the_vocabulary_lacks(name):
    model, processor = build_with_processor(POINTER_GENERATOR, VOCABULARIES[name])
    settings = {"whole_sentences": True, "max_new_tokens": 60}
    documents = [NAMED, NAMED.split(". ", 1)]
    summarizer = pipeline("summarization", model=model, processor=processor)
    expected = [record["summary_text"] for record in summarizer(documents, **settings)]
    assert set(expected) <= set(sentence_candidates(NAMED))
    # the pipeline of a folder alone
    alone = pipeline_summarization.SummarizationPipeline(model, processor=processor)
    for size in (1, 2):
        assert [record["summary_text"] for record in alone(documents, batch_size=size, **settings)] == expected
    assert alone(" ", **settings) == [{"summary_text": ""}]
    # a prefix is no part of a sentence
    explanation = explain(model, processor, NAMED, source_prefix="tldr: ", **settings)
    ids = processor.tokenizer(expected[0], add_special_tokens=False)["input_ids"]
    assert explanation.summary == processor.batch_decode([ids])[0].strip()


def test_no_word_of_a_sentence_is_replaced():
    model, processor = build_with_processor(DRGD, VOCABULARIES["words"])
    summarizer = pipeline("summarization", model=model, processor=processor)
    (record,) = summarizer(NAMED, whole_sentences=True, replace_unk=True, max_new_tokens=60)
    assert record["summary_text"] in sentence_candidates(NAMED)


@with_vocabularies
def test_ids_that_do_not_give_the_text_are_refused(name):
    model, processor = build_with_processor(POINTER_GENERATOR, VOCABULARIES[name])
    inputs = processor(NAMED, return_tensors="pt")
    settings = {"whole_sentences": True, "max_new_tokens": 60, "tokenizer": processor}
    with pytest.raises(ValueError, match="needs the documents' texts, as their ids lack capitals or words"):
        model.generate(**inputs, **settings)
    ids = model.generate(**inputs, **settings, candidates=[NAMED])
    assert chosen_text(ids[0], NAMED, processor.tokenizer, special_tokens=False) in sentence_candidates(NAMED)


@pytest.mark.parametrize("special_tokens", [False, True])
def test_the_text_of_a_choice_is_found_by_its_ids(tiny_tokenizer, special_tokens):
    text = "Rivers hold mutual information (MI) on sand. We raise MI by a new map of many rivers."
    end_id, pad_id = tiny_tokenizer.eos_token_id, tiny_tokenizer.pad_token_id
    for most_tokens in range(4, 40):
        for candidate in candidates_of(text, tiny_tokenizer, most_tokens, special_tokens):
            assert len(candidate.ids) <= most_tokens
            ids = [end_id, *candidate.ids, pad_id]
            assert chosen_text(ids, text, tiny_tokenizer, special_tokens).strip() == candidate.text


def test_a_candidate_ends_where_a_language_follows_the_end(tiny_tokenizer):
    # mBART's tokenizer adds the end and a language to each text
    tokenizer = copy.deepcopy(tiny_tokenizer)
    language, end = tokenizer.convert_ids_to_tokens(5), tokenizer.eos_token
    special_tokens = [(language, 5), (end, tokenizer.eos_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"$A {end} {language}", special_tokens=special_tokens
    )
    text = "We raise sand by a new map of many rivers."
    (candidate,) = candidates_of(text, tokenizer, 40, special_tokens=True)
    assert candidate.ids == tokenizer(text)["input_ids"][:-1]
    assert candidate.ids[-1] == tokenizer.eos_token_id


def test_the_separator_of_bert_ends_a_candidate(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.eos_token = tokenizer.sep_token = None
    text = "We raise sand by a new map of many rivers."
    with pytest.raises(ValueError, match="`whole_sentences` needs a tokenizer with an `eos_token`"):
        candidates_of(text, tokenizer, 40, special_tokens=False)
    tokenizer.sep_token = tokenizer.convert_ids_to_tokens(5)
    (candidate,) = candidates_of(text, tokenizer, 40, special_tokens=False)
    assert candidate.ids == [*tokenizer(text, add_special_tokens=False)["input_ids"], 5]
    assert chosen_text([1, *candidate.ids], text, tokenizer, special_tokens=False) == text


def test_of_sentences_with_equal_ids_the_text_is_that_with_the_highest_merit(tiny_tokenizer):
    candidates = [Candidate("Ana met Bo.", [7, 2], 0.5), Candidate("Cy met Bo.", [7, 2], 0.7)]
    assert text_of([1, 7, 2, 0], candidates, tiny_tokenizer) == "Cy met Bo."


def test_a_setting_of_the_search_has_no_effect_and_a_warning_says_so(tiny_tokenizer, caplog):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    model.generation_config.whole_sentences = True
    summarizer = pipeline("summarization", model=model, processor=processor)
    expected = summarizer(" ".join(SENTENCES), max_new_tokens=60)
    assert "no effect" not in caplog.text
    for name, value in (("num_beams", 3), ("length_penalty", 9.0), ("gnmt_length_penalty", 9.0)):
        assert summarizer(" ".join(SENTENCES), max_new_tokens=60, **{name: value}) == expected
        assert f"`{name}` has no effect" in caplog.text
    caplog.clear()
    summarizer(SENTENCES[0], max_new_tokens=6, num_beams=3, whole_sentences=False)
    assert "no effect" not in caplog.text


@pytest.mark.thorough
def test_a_checkpoint_brings_the_code(tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    model.generation_config.whole_sentences = True
    save(tmp_path, model, processor)
    program = """
import sys
from tokenizers.processors import TemplateProcessing
from transformers import pipeline
sys.modules["hf_summ"] = None
print(pipeline("summarization", model=".", trust_remote_code=True)(sys.argv[1], max_new_tokens=60)[0]["summary_text"])
"""
    text = " ".join(SENTENCES)
    output, _ = run_python("-c", program, text, cwd=tmp_path)
    expected = pipeline("summarization", model=str(tmp_path))(text, max_new_tokens=60)[0]["summary_text"]
    assert output.strip() == expected
    assert expected in sentence_candidates(text)
