"""Our beam search against transformers', through `generate()`."""

import logging
import random
import time

import pytest
import torch
from transformers import LogitsProcessor, StoppingCriteria
from transformers.generation import BaseStreamer, GenerationMixin

from hf_summ.data import fit_vocabulary
from hf_summ.models.generation_mixin import SummarizationGenerationMixin, unsupported_setting
from hf_summ.models.layers_transformer import top_scores
from tests.conftest import SENTENCES
from tests.models.architectures import (
    ARCHITECTURES,
    COPY_TRANSFORMER,
    DRGD_PRINTED,
    GDLF,
    HIGHLIGHT_TRANSFORMER,
    SAGCOPY,
    build_with_processor,
)

END, OTHER_ENDS = 2, [7, 11]


class ByPlace(LogitsProcessor):
    """Scores that depend on the place of a row in the batch."""

    def __call__(self, input_ids, scores):
        return scores + (torch.arange(scores.numel()).view_as(scores) % 7 == 0)


# of each, what a case draws from
SETTINGS = {
    "plain": {},
    "early stopping": {"early_stopping": [True]},
    "no early stopping": {"early_stopping": ["never"], "length_penalty": [-1.0, 0.0, 2.0]},
    "length penalty": {"length_penalty": [-1.0, 0.0, 0.5, 3.0]},
    "GNMT penalty": {"gnmt_length_penalty": [0.0, 0.9, 3.0], "early_stopping": [False, True, "never"]},
    "several ends": {"eos_token_id": [[END, *OTHER_ENDS]], "early_stopping": [False, True]},
    "forced ids": {"forced_bos_token_id": [5], "forced_eos_token_id": [END]},
    "n-gram blocking": {"no_repeat_ngram_size": [1, 2, 3]},
    "minimum length": {"min_length": [2, 3], "min_new_tokens": [None, 2, 3]},
    "repetition penalty": {"repetition_penalty": [0.7, 1.5], "suppress_tokens": [None, [8, 9]]},
    "a prompt": {"decoder_input_ids": [[1, 9, 9]], "no_repeat_ngram_size": [0, 2], "min_new_tokens": [None, 3]},
    "the caller's processor": {"logits_processor": [[ByPlace()]]},
    "words": {"no_repeat_word_ngram_size": [1, 2, 3], "min_new_words": [0, 4]},
    "coverage": {"coverage_penalty": [0.5, 5.0], "early_stopping": [False, True]},
}


def search(model, monkeypatch, **settings):
    """What our search and transformers' return for the same settings."""
    outputs = model.generate(**settings, return_dict_in_generate=True)
    with monkeypatch.context() as patch:
        for name in ("_beam_search", "_sample"):
            patch.setattr(SummarizationGenerationMixin, name, getattr(GenerationMixin, name))
        return outputs, model.generate(**settings, return_dict_in_generate=True)


def compare(architecture, kind, seed, documents, monkeypatch, numbers_of_beams):
    """Compare the two searches on random documents, of different lengths and in any order."""
    draw = random.Random(f"{kind} {seed}")
    settings = {name: draw.choice(values) for name, values in SETTINGS[kind].items()}
    beams = draw.choice(numbers_of_beams)
    settings |= {"num_beams": beams, "num_return_sequences": draw.randint(1, beams)}
    settings |= {"max_new_tokens": draw.choice([3, 8, 14])}
    # untrained models seldom end a text
    settings["sequence_bias"] = [[[end], draw.uniform(0.0, 6.0)] for end in (END, *OTHER_ENDS[:1])]
    if kind == "words":
        tokenizer = fit_vocabulary([*SENTENCES, "a an"], vocab_size=300, min_frequency=1, show_progress=False)
        model, processor = build_with_processor(architecture, tokenizer)
        model = model.double()
        texts = [" ".join(draw.choices(SENTENCES, k=draw.randint(1, 3))) for _ in range(documents)]
        inputs = processor(texts, padding=True, return_tensors="pt")
        settings["tokenizer"] = processor
    else:
        model, inputs = architecture.model(), architecture.inputs(rows=documents, length=draw.randint(5, 14), seed=seed)
    order = torch.tensor(draw.sample(range(documents), documents))
    inputs = {name: value[order] for name, value in inputs.items()}
    if "decoder_input_ids" in settings:
        settings["decoder_input_ids"] = torch.tensor([settings["decoder_input_ids"]] * documents)
    outputs, expected = search(model, monkeypatch, **inputs, **settings)
    assert torch.equal(outputs.sequences, expected.sequences)
    if beams > 1:
        # two beams with equal scores may have any order
        assert (outputs.beam_indices != expected.beam_indices).any(1).sum() <= 1


def suits(architecture, kind):
    return kind != "coverage" or architecture.model().has_coverage


@pytest.mark.thorough
@pytest.mark.parametrize("beams", [[1], [2, 3, 5]], ids=["greedy", "beams"])
@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_a_thousand_documents_have_the_texts_of_transformers(architecture, kind, beams, monkeypatch):
    if not suits(architecture, kind):
        pytest.skip("has no coverage")
    for seed in range(4):
        compare(architecture, kind, seed, 32, monkeypatch, beams)


@pytest.mark.thorough
@pytest.mark.parametrize("space", ["log", "probability"])
def test_conditioned_beams_are_those_of_transformers(space, conditioned, monkeypatch):
    inputs = COPY_TRANSFORMER.inputs(rows=4)
    settings = {"num_beams": 3, "max_new_tokens": 6, "lm_rejected_factor": 0.5, "lm_accepted_factor": 2.0}
    outputs, expected = search(conditioned, monkeypatch, **inputs, **settings)
    assert torch.equal(outputs.sequences, expected.sequences)


def rows_of_steps(model, **settings):
    """The number of rows of each step."""
    rows = []
    hook = model.model.decoder.register_forward_pre_hook(
        lambda module, args, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    model.generate(**settings)
    hook.remove()
    return rows


# with what the ends gain, some documents are finished before others
BIASES = [(GDLF, 2.5), (COPY_TRANSFORMER, 2.0), (HIGHLIGHT_TRANSFORMER, 3.0), (SAGCOPY, 4.0), (DRGD_PRINTED, 2.5)]


@pytest.mark.parametrize(("architecture", "bias"), BIASES, ids=lambda value: getattr(value, "name", ""))
def test_finished_documents_leave_the_batch(architecture, bias):
    model, inputs = architecture.model(), architecture.inputs(rows=4)
    settings = {"num_beams": 2, "max_new_tokens": 12, "early_stopping": True, "sequence_bias": [[[END], bias]]}
    rows = rows_of_steps(model, **inputs, **settings)
    assert rows == sorted(rows, reverse=True)
    assert rows[0] == 8
    assert rows[-1] in (2, 4, 6)
    if architecture.model().has_coverage:
        assert rows_of_steps(model, **inputs, **settings, coverage_penalty=0.01)[-1] < 8
    # but where it may matter to a processor
    assert set(rows_of_steps(model, **inputs, **settings, logits_processor=[ByPlace()])) == {8}


class EndsAtLength(LogitsProcessor):
    """A text ends when it has as many ids as its second one says."""

    is_by_row = True

    def __init__(self, end):
        self.end = end

    def __call__(self, input_ids, scores):
        scores[:, self.end] = torch.where(input_ids[:, 1] == input_ids.shape[1], torch.inf, -torch.inf)
        return scores


@pytest.mark.parametrize("architecture", [architecture for architecture, _ in BIASES], ids=lambda value: value.name)
def test_finished_documents_of_greedy_search_leave_the_batch(architecture):
    model = architecture.model()
    start, end = model.config.decoder_start_token_id, architecture.end_token_id
    settings = {"decoder_input_ids": torch.tensor([[start, length] for length in (5, 3, 7, 5)]), "max_new_tokens": 12}
    rows = rows_of_steps(model, **architecture.inputs(rows=4), **settings, logits_processor=[EndsAtLength(end)])
    assert rows == [4, 4, 3, 3, 1, 1]


class Clock(LogitsProcessor):
    """A clock that shows the number of steps."""

    seconds = 0

    def __call__(self, input_ids, scores):
        self.seconds += 1
        return scores


@pytest.mark.parametrize("beams", [1, 3])
def test_texts_are_those_of_transformers_when_the_time_is_over(beams, monkeypatch, caplog):
    clock = Clock()
    for name in ("time", "monotonic"):
        monkeypatch.setattr(time, name, lambda: clock.seconds)
    settings = {"num_beams": beams, "max_new_tokens": 12, "min_new_tokens": 12, "max_time": 3.5}
    with caplog.at_level(logging.DEBUG, logger="hf_summ.models.generation_mixin"):
        outputs, expected = search(GDLF.model(), monkeypatch, **GDLF.inputs(), **settings, logits_processor=[clock])
    assert "transformers' own search" not in caplog.text
    assert torch.equal(outputs.sequences, expected.sequences)
    # after the start token, a token for each second that began in time
    assert outputs.sequences.shape == (len(GDLF.inputs()["input_ids"]), 1 + 4)


class Lines(BaseStreamer):
    def put(self, value):
        pass

    def end(self):
        pass


class Never(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return torch.zeros(len(input_ids), dtype=torch.bool)


CASES_OF_TRANSFORMERS_SEARCHES = [
    ("do_sample", True),
    ("output_scores", True),
    ("output_logits", True),
    ("output_attentions", True),
    ("output_hidden_states", True),
    ("use_cache", False),
    ("decoder_attention_mask", torch.ones(3, 1, dtype=torch.long)),
    ("stopping_criteria", [Never()]),
    ("streamer", Lines()),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "value"), CASES_OF_TRANSFORMERS_SEARCHES)
def test_other_settings_are_searched_by_transformers(name, value, caplog):
    # beams are not streamed
    settings = {"num_beams": 1 + (name != "streamer"), "max_new_tokens": 3, "return_dict_in_generate": True}
    model, inputs = GDLF.model(), GDLF.inputs()
    if name == "decoder_attention_mask":
        settings["decoder_input_ids"] = torch.ones(3, 1, dtype=torch.long)
    with caplog.at_level(logging.DEBUG, logger="hf_summ.models.generation_mixin"):
        model.generate(**inputs, **settings)
        assert "transformers' own search" not in caplog.text
        torch.manual_seed(0)
        output = model.generate(**inputs, **settings, **{name: value})
        assert f"transformers' own search is used because of `{name}`" in caplog.text
    assert output.scores is None or name == "output_scores"


def test_processes_that_wait_for_each_other_are_searched_by_transformers():
    config = GDLF.model().generation_config
    model_kwargs = {"use_cache": True}
    assert unsupported_setting(config, [], model_kwargs, synced_gpus=False) is None
    assert unsupported_setting(config, [], model_kwargs, synced_gpus=True) == "synced_gpus"
    model_kwargs["cache"] = ()
    assert unsupported_setting(config, [], model_kwargs, synced_gpus=False) == "cache"


@pytest.mark.parametrize("size", [5, 130, 1280, 1300, 5000])
def test_best_scores_are_found(size):
    scores = torch.randn(3, size)
    scores[0] = -torch.inf
    # few that are possible, of which the last one is in no whole block
    scores[0, [0, size // 2, size - 1]] = torch.tensor([-1.0, 2.0, 1.0])
    best, places = top_scores(scores, 4)
    assert torch.equal(best, scores.sort(descending=True).values[:, :4])
    assert torch.equal(scores.gather(1, places), best)
    assert all(len(set(row)) == 4 for row in places.tolist())
