"""The loss that all architectures share, against its definition, one token at a time."""

import pytest
import torch

from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.models.layers_copying import smoothed_cross_entropy
from tests.models.architectures import EACH
from tests.models.naive import naive_loss

CASES_OF_ITEMS = [None, 7, torch.tensor(9)]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("items", CASES_OF_ITEMS, ids=str)
@pytest.mark.parametrize("normalize", [True, False])
def test_loss_and_gradients_equal_the_naive_ones(smoothing, items, normalize):
    labels = torch.randint(11, (3, 5))
    labels[0, 2:] = IGNORED_LABEL
    scores = torch.randn(3, 5, 11, dtype=torch.float64, requires_grad=True)
    naive_scores = scores.detach().clone().requires_grad_()
    loss, nll = smoothed_cross_entropy(scores, labels, smoothing, items, normalize)
    log_probs = naive_scores.log_softmax(-1) if normalize else naive_scores
    expected, expected_nll = naive_loss(log_probs, labels, smoothing, items)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, expected_nll.detach())
    assert not nll.requires_grad
    # a factor behind the loss reaches the gradients
    (gradient,) = torch.autograd.grad(3 * loss, scores)
    (expected_gradient,) = torch.autograd.grad(3 * expected, naive_scores)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("architecture", EACH)
def test_divisors_of_rows_give_the_mean_of_the_documents_means(architecture):
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    counts = (labels != IGNORED_LABEL).sum(1, keepdim=True)
    # the loss of training, which otherwise skips the logits
    outputs = model(**inputs, labels=labels, num_items_in_batch=counts * len(labels), skip_logits=True)
    losses = []
    for row in range(len(labels)):
        document = {name: values[row : row + 1] for name, values in inputs.items()}
        losses.append(model(**document, labels=labels[row : row + 1]).loss)
    expected = torch.stack(losses).mean()
    torch.testing.assert_close(outputs.loss, expected)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    gradients = [torch.autograd.grad(loss, weights, allow_unused=True) for loss in (outputs.loss, expected)]
    torch.testing.assert_close(*gradients)


def test_half_precision_is_summed_in_float32():
    logits = torch.randn(2, 3, 7).bfloat16().requires_grad_()
    labels = torch.randint(7, (2, 3))
    loss, nll = smoothed_cross_entropy(logits, labels, 0.1)
    loss.backward()
    assert (loss.dtype, nll.dtype, logits.grad.dtype) == (torch.float32, torch.float32, torch.bfloat16)
    torch.testing.assert_close(loss, smoothed_cross_entropy(logits.float(), labels, 0.1)[0])


def test_loss_that_is_scaled_in_place_leaves_its_parts():
    scores, labels = torch.randn(2, 3, 7, requires_grad=True), torch.randint(7, (2, 3))
    for smoothing in (0.0, 0.1):
        loss, nll = smoothed_cross_entropy(scores, labels, smoothing)
        before = nll.item()
        loss *= 2
        assert nll.item() == before


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_is_added_to_log_probabilities_changes_no_gradient(smoothing):
    # a language model's scores, as in the line that CopyTransformer's program runs: docs/equations.md, section 2
    logits, labels = torch.randn(2, 3, 7, requires_grad=True), torch.randint(7, (2, 3))
    gradients = [
        torch.autograd.grad(
            smoothed_cross_entropy(logits.log_softmax(-1) + added, labels, smoothing, None, False)[0], logits
        )
        for added in (0.0, torch.randn(2, 3, 7))
    ]
    torch.testing.assert_close(*gradients)


def test_loss_of_a_batch_without_targets_is_zero():
    loss, _ = smoothed_cross_entropy(torch.randn(2, 3, 5), torch.full((2, 3), IGNORED_LABEL), 0.1)
    assert loss.item() == 0.0
