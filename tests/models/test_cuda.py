"""The architectures on a GPU, compared with a CPU in float64; skipped without a GPU."""

import copy

import pytest
import torch

from tests.models.architectures import EACH

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def on_gpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.cuda() for name, tensor in tensors.items()}


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.grad.cpu() for name, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("architecture", EACH)
def test_loss_and_gradients_are_those_of_a_cpu(architecture):
    model, inputs = architecture.model(), architecture.inputs() | {"labels": architecture.labels()}
    copied = copy.deepcopy(model).cuda()
    expected, actual = model(**inputs), copied(**on_gpu(inputs))
    # sinusoids are computed in float32, whose last digits depend on the device
    tolerance = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(actual.logits.cpu(), expected.logits, **tolerance)
    torch.testing.assert_close(actual.loss.cpu(), expected.loss, **tolerance)
    for outputs in (expected, actual):
        outputs.loss.backward()
    torch.testing.assert_close(gradients(copied), gradients(model), **tolerance)


DECODINGS = [{"num_beams": 1}, {"num_beams": 4}, {"num_beams": 4, "no_repeat_ngram_size": 2}]


@pytest.mark.parametrize("settings", DECODINGS)
@pytest.mark.parametrize("architecture", EACH)
def test_texts_are_those_of_a_cpu(architecture, settings):
    model, inputs = architecture.model(), architecture.inputs()
    settings = {"max_new_tokens": 9, "min_new_tokens": 3, **settings}
    expected = model.generate(**inputs, **settings)
    torch.testing.assert_close(model.cuda().generate(**on_gpu(inputs), **settings).cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("architecture", EACH)
def test_half_precision_is_near(architecture, dtype):
    model, inputs = architecture.model(), architecture.inputs() | {"labels": architecture.labels()}
    expected = model(**inputs).loss.item()
    is_real = {name: tensor.is_floating_point() for name, tensor in inputs.items()}
    inputs = {name: tensor.float() if is_real[name] else tensor for name, tensor in inputs.items()}
    model, inputs = model.float().cuda(), on_gpu(inputs)
    with torch.autocast("cuda", dtype=dtype):
        loss = model(**inputs).loss
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=0.05)
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())
    with torch.no_grad():
        assert model.to(dtype)(**inputs).loss.item() == pytest.approx(expected, rel=0.1)
    assert model.generate(**inputs, num_beams=3, max_new_tokens=5).is_cuda


@pytest.mark.parametrize("architecture", [param for param in EACH if "drgd" not in str(param.id)])
def test_compiled_loss_is_that_of_a_cpu(architecture):
    model, inputs = architecture.model(), architecture.inputs() | {"labels": architecture.labels()}
    expected = model(**inputs).loss
    compiled = torch.compile(model.cuda())
    torch.testing.assert_close(compiled(**on_gpu(inputs)).loss.cpu(), expected, rtol=1e-5, atol=1e-6)
