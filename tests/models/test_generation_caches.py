"""What transformers' own generation tests ask of a cache: its kinds, continuation, and decoding with an assistant."""

import copy

import pytest
import torch

from tests.models.architectures import generate


def test_drafts_are_refused(architecture):
    """A state cannot be rolled back to the last token that was right."""
    model, inputs = architecture.model(), architecture.inputs(rows=1)
    for drafts in ({"assistant_model": copy.deepcopy(model)}, {"prompt_lookup_num_tokens": 2}):
        with pytest.raises(ValueError, match="assisted generation is not supported with stateful models"):
            generate(model, inputs, **drafts)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["dynamic", "static", "offloaded", "offloaded_static", "quantized"])
def test_other_kinds_of_cache_have_no_effect(architecture, kind):
    model, inputs = architecture.model(), architecture.inputs()
    expected = generate(model, inputs, num_beams=2)
    assert torch.equal(generate(model, inputs, num_beams=2, cache_implementation=kind), expected)


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{}, {"do_sample": True, "top_k": 1}], ids=["greedy", "sampling"])
def test_summaries_are_continued_from_a_cache(architecture, settings):
    model, inputs = architecture.model(), architecture.inputs()
    whole = generate(model, inputs, min_new_tokens=9, **settings)
    lengths = {"max_new_tokens": 4, "min_new_tokens": 4}
    begun = generate(model, inputs, return_dict_in_generate=True, **{**settings, **lengths})
    # with its mask, transformers leaves out what the cache holds
    mask = torch.ones_like(begun.sequences)
    further = {"decoder_input_ids": begun.sequences, "decoder_attention_mask": mask, "cache": begun["cache"]}
    lengths = {"max_new_tokens": 5, "min_new_tokens": 5}
    assert torch.equal(generate(model, {**inputs, **further}, **{**settings, **lengths}), whole)
