"""The copy mixture against the thesis's equation 4.3, written with loops over the source."""

import pytest
import torch

from hf_summ.models.layers_copying import copy_log_probs, first_positions
from tests.models.naive import assert_equals_with_gradients, naive_copying

VOCABULARY = 13


def make(documents=2, beams=1, target=3, source=9, dtype=torch.float64, padding=2):
    """Logits, gates, attention and source ids; ids repeat, and the last document ends in padding (id 0)."""
    source_ids = torch.randint(1, VOCABULARY - 3, (documents, source))
    source_ids[:, 1] = source_ids[:, 3] = source_ids[:, 0]
    scores = torch.randn(documents * beams, target, source, dtype=dtype)
    if padding:
        source_ids[-1, -padding:] = 0
        scores[-beams:, :, -padding:] = -torch.inf
    logits = torch.randn(documents * beams, target, VOCABULARY, dtype=dtype).requires_grad_()
    gate_logits = torch.randn(documents * beams, target, dtype=dtype).requires_grad_()
    copy_attention = scores.softmax(-1).requires_grad_()
    return logits, gate_logits, copy_attention, source_ids


@pytest.mark.parametrize("beams", [1, 3])
def test_mixture_and_its_gradients_equal_the_naive_ones(beams):
    logits, gate_logits, copy_attention, source_ids = make(beams=beams)
    expected = naive_copying(logits, gate_logits, copy_attention, source_ids).log()
    actual = copy_log_probs(logits, gate_logits, copy_attention, source_ids)
    assert_equals_with_gradients(
        actual, expected, logits=logits, gate_logits=gate_logits, copy_attention=copy_attention
    )


@pytest.mark.parametrize("beams", [1, 3])
def test_words_that_the_vocabulary_lacks_have_pointers_to_their_first_occurrence(beams):
    logits, gate_logits, copy_attention, source_ids = make(beams=beams)
    unknown_ids = 4
    source_ids[0, 4] = source_ids[0, 7] = source_ids[1, 2] = VOCABULARY + 3
    source_ids[0, 5] = VOCABULARY
    log_probs = copy_log_probs(logits, gate_logits, copy_attention, source_ids, unknown_ids)
    larger = torch.cat((logits, logits.new_full((*logits.shape[:2], unknown_ids), -torch.inf)), dim=-1)
    words = naive_copying(larger, gate_logits, copy_attention, source_ids)
    pointers = words.new_zeros(*logits.shape[:2], source_ids.shape[1])
    pointers[:beams, :, 4] = words[:beams, :, -1]
    pointers[:beams, :, 5] = words[:beams, :, -4]
    pointers[beams:, :, 2] = words[beams:, :, -1]
    expected = torch.cat((words[:, :, :VOCABULARY], pointers), dim=-1)
    torch.testing.assert_close(log_probs.exp(), expected)
    assert log_probs.isfinite().all()
    with torch.no_grad():
        without = copy_log_probs(logits, gate_logits, copy_attention, source_ids, unknown_ids)
    torch.testing.assert_close(without, log_probs)


def test_without_gradients_the_same_and_no_input_is_changed():
    logits, gate_logits, copy_attention, source_ids = make(beams=2)
    inputs = (logits, gate_logits, copy_attention)
    copies = [tensor.clone() for tensor in inputs]
    with torch.no_grad():
        without = copy_log_probs(logits, gate_logits, copy_attention, source_ids)
    log_probs = copy_log_probs(logits, gate_logits, copy_attention, source_ids)
    torch.testing.assert_close(without, log_probs, rtol=0, atol=0)
    for tensor, copy in zip(inputs, copies, strict=True):
        assert torch.equal(tensor, copy)


def test_one_input_alone_may_want_a_gradient():
    logits, gate_logits, copy_attention, source_ids = make()
    inputs = (logits, gate_logits, copy_attention)
    log_probs = copy_log_probs(logits, gate_logits, copy_attention, source_ids)
    gradients = torch.autograd.grad(log_probs.square().sum(), inputs)
    for position, expected in enumerate(gradients):
        detached = [tensor.detach() for tensor in inputs]
        detached[position].requires_grad_()
        log_probs = copy_log_probs(*detached, source_ids)
        (gradient,) = torch.autograd.grad(log_probs.square().sum(), detached[position])
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_add_up_to_one_in_float32(dtype):
    logits, gate_logits, copy_attention, source_ids = make(dtype=dtype)
    log_probs = copy_log_probs(logits, gate_logits, copy_attention, source_ids)
    assert log_probs.dtype == torch.float32
    # the attention itself adds up to one only as its precision goes
    tolerance = 10 * torch.finfo(dtype).eps
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 3), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gate", [-100.0, 100.0])
def test_finite_with_the_gate_far_to_one_side(dtype, gate):
    logits, _, copy_attention, source_ids = make(dtype=dtype)
    gate_logits = torch.full(logits.shape[:2], gate, dtype=dtype, requires_grad=True)
    log_probs = copy_log_probs(logits, gate_logits, copy_attention, source_ids)
    assert log_probs.isfinite().all()
    if gate < 0:
        torch.testing.assert_close(log_probs, logits.log_softmax(-1, dtype=torch.float32))
    else:
        # tokens that are not in the source keep the gate's own probability
        torch.testing.assert_close(log_probs[..., -3:], logits.log_softmax(-1, dtype=torch.float32)[..., -3:] - 100.0)
    # the source's tokens too, padding among them, whose attention is zero
    gradients = torch.autograd.grad(log_probs.mean(), (logits, gate_logits, copy_attention))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_first_positions():
    source_ids = torch.tensor([[5, 7, 5, 5, 7, 0], [1, 2, 3, 2, 1, 1]])
    expected = torch.tensor([[0, 1, 0, 0, 1, 5], [0, 1, 2, 1, 0, 0]])
    torch.testing.assert_close(first_positions(source_ids, 8), expected)


def test_first_positions_of_a_long_document_take_linear_memory():
    # all pairs of positions would be 40 GB
    source_ids = torch.arange(200_000)[None] % 30_000
    torch.testing.assert_close(first_positions(source_ids, 30_000), source_ids)
