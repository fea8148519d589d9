"""The chunked cross-entropy of the copy mixture against the loss written out token by token."""

import pytest
import torch
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from hf_summ.training.losses import copy_cross_entropy
from tests.models.naive import naive_copying, naive_loss

VOCABULARY, WIDTH, TARGET, SOURCE = 17, 6, 5, 8
NAMES = ("hidden", "weight", "bias", "gate_logits", "copy_attention")


def make(dtype=torch.float64, documents=3):
    """Tensors that need gradients, by name, source ids, and labels inside and outside the source, some ignored."""
    source_ids = torch.randint(1, VOCABULARY - 4, (documents, SOURCE))
    source_ids[:, 2] = source_ids[:, 5] = source_ids[:, 0]
    source_ids[-1, -3:] = 0
    attention = torch.randn(documents, TARGET, SOURCE, dtype=dtype)
    attention[-1, :, -3:] = -torch.inf
    labels = torch.randint(1, VOCABULARY, (documents, TARGET))
    labels[:, 0] = source_ids[:, 0]
    labels[:, 1] = VOCABULARY - 1
    labels[0, 3:] = labels[-1, 2] = -100
    tensors = (
        torch.randn(documents, TARGET, WIDTH, dtype=dtype),
        torch.randn(VOCABULARY, WIDTH, dtype=dtype),
        torch.randn(VOCABULARY, dtype=dtype),
        torch.randn(documents, TARGET, dtype=dtype),
        attention.softmax(-1),
    )
    return {name: tensor.requires_grad_() for name, tensor in zip(NAMES, tensors, strict=True)}, source_ids, labels


def without_copying(tensors):
    return {**tensors, "gate_logits": None, "copy_attention": None}


def fused(tensors, source_ids, labels, smoothing=0.1, num_items_in_batch=None, **options):
    return copy_cross_entropy(
        *tensors.values(), source_ids, labels, smoothing, num_items_in_batch=num_items_in_batch, **options
    )


def naive(tensors, source_ids, labels, smoothing=0.1, num_items_in_batch=None):
    hidden, weight, bias, gate_logits, copy_attention = tensors.values()
    logits = linear(hidden, weight, bias)
    if gate_logits is None:
        log_probs = logits.log_softmax(-1)
    else:
        log_probs = naive_copying(logits, gate_logits, copy_attention, source_ids).log()
    loss, nll = naive_loss(log_probs, labels, smoothing, num_items_in_batch)
    return loss, nll.detach()


def gradients_of(loss, tensors):
    trained = {name: tensor for name, tensor in tensors.items() if tensor is not None and tensor.requires_grad}
    gradients = torch.autograd.grad(loss, trained.values())
    return dict(zip(trained, gradients, strict=True))


def assert_same_gradients(actual, expected, **tolerances):
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        torch.testing.assert_close(
            gradient, expected[name], msg=lambda message, name=name: f"gradient of {name}: {message}", **tolerances
        )


def assert_equals_naive(tensors, source_ids, labels, smoothing=0.1, num_items_in_batch=None, **options):
    loss, nll = fused(tensors, source_ids, labels, smoothing, num_items_in_batch, **options)
    expected_loss, expected_nll = naive(tensors, source_ids, labels, smoothing, num_items_in_batch)
    torch.testing.assert_close(loss, expected_loss)
    torch.testing.assert_close(nll, expected_nll)
    assert not nll.requires_grad
    # a factor behind the loss reaches the gradients
    assert_same_gradients(gradients_of(3.0 * loss, tensors), gradients_of(3.0 * expected_loss, tensors))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("copying", [True, False])
def test_loss_and_gradients_equal_the_naive_ones(copying, smoothing):
    tensors, source_ids, labels = make()
    assert_equals_naive(tensors if copying else without_copying(tensors), source_ids, labels, smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk_rows", [5, 100])
def test_words_that_the_vocabulary_lacks_are_those_of_a_larger_one_that_are_never_generated(smoothing, chunk_rows):
    tensors, source_ids, labels = make()
    unknown_ids, lacking = 6, VOCABULARY + 4
    source_ids[0, 1] = source_ids[0, 6] = source_ids[1, 7] = lacking
    source_ids[0, 4] = VOCABULARY
    labels[0, 0] = labels[1, 0] = lacking
    hidden, weight, bias, gate_logits, copy_attention = tensors.values()
    logits = linear(hidden, weight, bias)
    unknown_logits = logits.new_full((*labels.shape, unknown_ids), -torch.inf)
    logits = torch.cat((logits, unknown_logits), dim=-1)
    probabilities = naive_copying(logits, gate_logits, copy_attention, source_ids)
    is_target = labels != -100
    log_probs = probabilities[is_target].gather(1, labels[is_target][:, None]).log()
    # only words of the vocabulary are smoothed
    uniform = probabilities[is_target][:, :VOCABULARY].log().mean(1)
    expected = -((1 - smoothing) * log_probs.mean() + smoothing * uniform.mean())
    # pointers to the first occurrences
    columns = labels.clone()
    columns[0, 0], columns[1, 0] = VOCABULARY + 1, VOCABULARY + 7
    loss, nll = fused(tensors, source_ids, columns, smoothing, unknown_ids=unknown_ids, chunk_rows=chunk_rows)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, -log_probs.mean().detach())
    assert_same_gradients(gradients_of(3.0 * loss, tensors), gradients_of(3.0 * expected, tensors))


CASES_OF_OPTIONS = [
    # 12 rows have labels: chunks of one row, uneven ones, all rows, and more than there are
    {"chunk_rows": 1},
    {"chunk_rows": 5},
    {"chunk_rows": 12},
    {"chunk_rows": 100},
    # the loss may be divided by the items of all accumulated batches
    {"num_items_in_batch": torch.tensor(7)},
]


@pytest.mark.parametrize("options", CASES_OF_OPTIONS, ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_loss_and_gradients_in_chunks_equal_the_naive_ones(options, has_bias):
    tensors, source_ids, labels = make()
    if not has_bias:
        tensors["bias"] = None
    assert_equals_naive(tensors, source_ids, labels, **options)


@pytest.mark.parametrize("frozen", NAMES)
def test_frozen_inputs_get_no_gradient_and_leave_the_others_alone(frozen):
    tensors, source_ids, labels = make()
    expected = gradients_of(fused(tensors, source_ids, labels)[0], tensors)
    expected.pop(frozen)
    tensors[frozen].requires_grad_(False)
    assert_same_gradients(gradients_of(fused(tensors, source_ids, labels)[0], tensors), expected)


def test_under_no_grad_the_same_loss_and_no_gradients_computed():
    tensors, source_ids, labels = make()
    loss, nll = fused(tensors, source_ids, labels)
    with torch.no_grad(), torch.autograd.profiler.profile() as profile:
        without, nll_without = fused(tensors, source_ids, labels)
    torch.testing.assert_close(without, loss.detach(), rtol=0, atol=0)
    torch.testing.assert_close(nll_without, nll, rtol=0, atol=0)
    assert not without.requires_grad
    # the projection with its bias is the only matrix product
    products = {event.name for event in profile.function_events} & {"aten::addmm", "aten::addmm_", "aten::mm"}
    assert products == {"aten::addmm"}


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing(use_reentrant):
    tensors, source_ids, labels = make()
    expected = gradients_of(fused(tensors, source_ids, labels)[0], tensors)

    def run(*values):
        return fused(dict(zip(NAMES, values, strict=True)), source_ids, labels)[0]

    checkpoint(run, *tensors.values(), use_reentrant=use_reentrant).backward()
    assert_same_gradients({name: tensor.grad for name, tensor in tensors.items()}, expected)


def test_a_kept_graph_gives_the_same_gradients_again():
    tensors, source_ids, labels = make()
    loss, _ = fused(tensors, source_ids, labels)
    first = torch.autograd.grad(5.0 * loss, tensors.values(), retain_graph=True)
    second = torch.autograd.grad(loss, tensors.values())
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, 5.0 * other)


@pytest.mark.parametrize("copying", [True, False])
@pytest.mark.parametrize("items", [None, 4])
def test_batch_without_labels_costs_nothing(copying, items):
    tensors, source_ids, labels = make()
    tensors = tensors if copying else without_copying(tensors)
    loss, nll = fused(tensors, source_ids, torch.full_like(labels, -100), num_items_in_batch=items)
    assert loss == 0
    assert nll == 0
    assert all((gradient == 0).all() for gradient in gradients_of(loss, tensors).values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gate", [-100.0, 100.0])
@pytest.mark.parametrize("label", [VOCABULARY - 1, 0])
def test_finite_with_the_gate_far_to_one_side(dtype, gate, label):
    """The label is nowhere in the source, or only in its padding, whose attention is zero."""
    tensors, source_ids, labels = make(dtype)
    tensors["gate_logits"] = torch.full(labels.shape, gate, dtype=dtype, requires_grad=True)
    labels = torch.full_like(labels, label)
    loss, nll = fused(tensors, source_ids, labels, num_items_in_batch=1)
    assert loss.dtype == nll.dtype == torch.float32
    assert loss.isfinite()
    assert nll.isfinite()
    gradients = gradients_of(loss, tensors)
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name
        assert gradient.dtype == dtype
    # a gate that shuts out the right answer is told so
    assert (gradients["gate_logits"].max() > 0.5) == (gate > 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_close(dtype):
    tensors, source_ids, labels = make(dtype)
    exact = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    loss, nll = fused(tensors, source_ids, labels, chunk_rows=5)
    expected_loss, expected_nll = naive(exact, source_ids, labels)
    tolerances = {"rtol": 8 * torch.finfo(dtype).eps, "atol": 4 * torch.finfo(dtype).eps, "check_dtype": False}
    torch.testing.assert_close(loss, expected_loss, **tolerances)
    torch.testing.assert_close(nll, expected_nll, **tolerances)
    assert_same_gradients(gradients_of(loss, tensors), gradients_of(expected_loss, exact), **tolerances)


def test_half_precision_keeps_what_a_scaled_loss_asks_for():
    tensors, source_ids, labels = make(torch.float16)
    exact = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    # divided by so many labels the gradients would be zero in half precision, were they cast before they are scaled
    items, scale = 10_000_000, 2.0**20
    actual = gradients_of(scale * fused(tensors, source_ids, labels, num_items_in_batch=items)[0], tensors)
    expected = gradients_of(scale * naive(exact, source_ids, labels, num_items_in_batch=items)[0], exact)
    assert_same_gradients(actual, expected, rtol=1e-2, atol=2e-3, check_dtype=False)


def test_autocast_is_close_and_keeps_the_parameters_precision():
    tensors, source_ids, labels = make(torch.float32)
    expected = fused(tensors, source_ids, labels)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = fused(tensors, source_ids, labels)[0]
    assert loss.dtype == torch.float32
    # the products are bfloat16's, so not equal to the last bit
    assert loss != expected
    torch.testing.assert_close(loss, expected, rtol=2e-2, atol=0)
    assert_same_gradients(gradients_of(loss, tensors), gradients_of(expected, tensors), rtol=5e-2, atol=2e-2)
