"""Convolutional self-attention against the thesis's equations 4.4 to 4.9, one query at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.measuring import peak_mebibytes
from hf_summ.models.layers_copy_transformer import windowed_attention
from hf_summ.models.modeling_copy_transformer import ConvolutionalSelfAttention
from tests.models.naive import assert_equals_with_gradients, naive_windowed_attention


def make(length, heads=3, batch=2, width=4, dtype=torch.float64):
    """Queries, keys and values (batch, heads, length, width), which want gradients."""
    inputs = []
    for _ in range(3):
        # as a layer's projections give them: heads behind positions in memory
        states = torch.randn(batch, length, heads, width, dtype=dtype).transpose(1, 2)
        inputs.append(states.requires_grad_())
    return tuple(inputs)


def prefix_mask(lengths, length):
    return (torch.arange(length) < torch.tensor(lengths)[:, None]).long()


def assert_equals_naive(inputs, window_size, head_window_size, circular, padding_mask=None):
    queries, keys, values = inputs
    settings = {"window_size": window_size, "head_window_size": head_window_size, "circular": circular}
    settings["padding_mask"] = padding_mask
    expected = naive_windowed_attention(queries, keys, values, **settings)
    actual = windowed_attention(queries, keys, values, **settings)
    assert_equals_with_gradients(actual, expected, queries=queries, keys=keys, values=values)


KINDS = {"1d": (1, False), "2d": (3, False), "circular": (3, True)}

# one position, shorter than the window, the chunk itself, many chunks and a rest, and windows far beyond the chunk
SHAPES = [(1, 5), (1, 1), (4, 11), (10, 11), (37, 11), (27, 13), (24, 1), (45, 3), (23, 21)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "window_size"), SHAPES)
def test_windows_and_their_gradients_equal_the_naive_ones(length, window_size, kind):
    assert_equals_naive(make(length, batch=1), window_size, *KINDS[kind])


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_never_seen(kind):
    inputs = make(29, batch=4)
    # the third document's padding is longer than a window: its last queries see nothing; the fourth has a hole
    mask = prefix_mask([29, 25, 2, 29], 29)
    mask[3, 5:12] = 0
    assert_equals_naive(inputs, 5, *KINDS[kind], padding_mask=mask)
    assert_equals_naive(inputs, 5, *KINDS[kind], padding_mask=mask.bool())


@pytest.mark.thorough
@given(
    length=st.integers(1, 26),
    window_size=st.integers(0, 8).map(lambda reach: 2 * reach + 1),
    heads=st.integers(1, 4),
    head_window_size=st.sampled_from([1, 3, 5, 7]),
    circular=st.booleans(),
    real=st.lists(st.integers(0, 30), min_size=2, max_size=2),
)
@settings(max_examples=15)
def test_any_sizes_equal_the_naive_ones(length, window_size, heads, head_window_size, circular, real):
    # head windows beyond the number of heads among them: each head is then seen once
    inputs = make(length, heads)
    assert_equals_naive(inputs, window_size, head_window_size, circular, padding_mask=prefix_mask(real, length))


def test_a_window_over_everything_is_full_attention():
    inputs = make(20)
    full = torch.nn.functional.scaled_dot_product_attention(*inputs)
    torch.testing.assert_close(windowed_attention(*inputs, 39), full)
    half = torch.nn.functional.scaled_dot_product_attention(*inputs, scale=0.25)
    torch.testing.assert_close(windowed_attention(*inputs, 39, scaling=0.25), half)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_stays_finite(dtype, kind):
    exact = make(33, dtype=torch.float32)
    inputs = [states.detach().to(dtype).requires_grad_() for states in exact]
    mask = prefix_mask([33, 0], 33)
    outputs = windowed_attention(*inputs, 5, *KINDS[kind], padding_mask=mask)
    assert outputs.dtype == dtype
    assert not outputs[1].any()
    expected = windowed_attention(*exact, 5, *KINDS[kind], padding_mask=mask)
    torch.testing.assert_close(outputs.float(), expected, rtol=0.05, atol=0.05)
    for gradient in torch.autograd.grad(outputs.float().square().sum(), inputs):
        assert gradient.isfinite().all()
        assert not gradient[1].any()


def test_large_scores_of_half_precision_stay_finite():
    # scores near the largest float16, beside padding
    inputs = [(100 * states).detach().half().requires_grad_() for states in make(9, width=16)]
    outputs = windowed_attention(*inputs, 3, padding_mask=prefix_mask([9, 4], 9))
    assert outputs.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(outputs.float().sum(), inputs))


@pytest.mark.thorough
def test_dropout_acts_on_the_weights_in_training_alone():
    queries, keys, _ = make(12, heads=2, batch=1)
    # the identity as values makes the outputs the weights themselves
    values = torch.eye(12, dtype=torch.float64).expand(1, 2, 12, 12)
    arguments = {"window_size": 5, "dropout": 0.3}
    weights = windowed_attention(queries, keys, values, **arguments)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 12, dtype=torch.float64))
    total = torch.zeros_like(weights)
    for _ in range(1000):
        dropped = windowed_attention(queries, keys, values, training=True, **arguments)
        total += dropped.detach()
    assert not torch.equal(dropped, weights)
    torch.testing.assert_close(total / 1000, weights, rtol=0, atol=0.08)


def test_memory_is_linear_in_the_length():
    def peak(length):
        inputs = make(length, heads=4, batch=1, width=8, dtype=torch.float32)
        mask = torch.ones(1, length)
        return peak_mebibytes(lambda: windowed_attention(*inputs, 11, 3, padding_mask=mask).sum().backward())

    assert 0 < peak(2048) < 4.5 * peak(512)


def test_layer_drops_out_in_training_alone():
    layer = ConvolutionalSelfAttention(None, 4, 2, 0.5, window_size=3, head_window_size=1, circular=False)
    hidden_states = torch.randn(1, 8, 4)
    assert not torch.equal(layer.train()(hidden_states)[0], layer(hidden_states)[0])
    torch.testing.assert_close(layer.eval()(hidden_states)[0], layer(hidden_states)[0], rtol=0, atol=0)
