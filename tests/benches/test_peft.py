"""PEFT's tests of encoder-decoder models, with each of its tuners, on every architecture and on BART for comparison."""

import dataclasses

import pytest

from tests.benches.exceptions import PEFT_TESTS, reason
from tests.benches.suites import load
from tests.benches.test_transformers import BART
from tests.models.architectures import (
    COPY_TRANSFORMER_BERT,
    DRGD,
    GDLF,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
)

pytestmark = pytest.mark.thorough

# sizes that all tuners' blocks divide
EVEN_DRGD = dataclasses.replace(DRGD, settings={**DRGD.settings, "embedding_size": 8, "latent_size": 8})
EVEN_POINTERS = dataclasses.replace(POINTER_GENERATOR, settings={**POINTER_GENERATOR.settings, "embedding_size": 8})
# without tags, which virtual tokens lack
GDLF_WITHOUT_TAGS = dataclasses.replace(GDLF, settings={**GDLF.settings, "tags": "none"}, source_fields={})
ARCHITECTURES = (
    BART,
    GDLF_WITHOUT_TAGS,
    COPY_TRANSFORMER_BERT,
    EVEN_DRGD,
    HIGHLIGHT_TRANSFORMER,
    EVEN_POINTERS,
    SAGCOPY,
)
TUNED = {architecture.name: architecture for architecture in ARCHITECTURES}

# no model is an instance of it
ABSENT = {"StableDiffusionPipeline": type("StableDiffusionPipeline", (), {})}
# the tests are run with our models in place of PEFT's
SUITE = load("peft", "test_encoder_decoder_models", {"diffusers": ABSENT})
for function in vars(SUITE.TestEncoderDecoderModels).values():
    for mark in list(getattr(function, "pytestmark", ())):
        if mark.args[0] == "model_id":
            function.pytestmark.remove(mark)
            pytest.mark.parametrize("model_id", TUNED)(function)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the models of `TUNED`, under their names."""
    folder = tmp_path_factory.mktemp("models")
    for name, architecture in TUNED.items():
        architecture.model().float().save_pretrained(folder / name)
    return folder


class TestTuners(SUITE.TestEncoderDecoderModels):
    """PEFT's tests with the models of `TUNED`."""

    @pytest.fixture(autouse=True)
    def working_directory(self, request, models, monkeypatch):
        """Runs a test in the folder of all models, which it names as on the Hub; skips a test that is listed."""
        settings = getattr(request.node, "callspec", None)
        if settings is None or "model_id" not in settings.params:
            pytest.skip("reads a model of the Hub")
        name, tuner = settings.params["model_id"], settings.params["config_cls"]
        why = reason(PEFT_TESTS, f"{request.node.originalname}-{tuner.__name__}", name)
        if why is not None:
            pytest.skip(f"listed: {why}")
        monkeypatch.chdir(models)
        self.architecture = TUNED[name]

    def prepare_inputs_for_testing(self):
        """Two documents, the second of which is shorter."""
        targets = self.architecture.labels(rows=2).clamp(min=4)
        return {**self.architecture.inputs(rows=2, length=7), "decoder_input_ids": targets}
