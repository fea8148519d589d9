"""PEFT's tests of encoder-decoder models, with each of its tuners, on every architecture and on BART for comparison."""

import dataclasses

import pytest
import torch

from tests.benches.exceptions import PEFT
from tests.benches.suites import load
from tests.benches.test_transformers import BART
from tests.models.architectures import COPY_TRANSFORMER_BERT, DRGD, GDLF, HIGHLIGHT_TRANSFORMER, SAGCOPY

pytestmark = pytest.mark.thorough

# without tags, which virtual tokens lack
GDLF_WITHOUT_TAGS = dataclasses.replace(GDLF, settings={**GDLF.settings, "tags": "none"}, source_fields={})
MODELS = {made.name: made for made in (BART, GDLF_WITHOUT_TAGS, COPY_TRANSFORMER_BERT, DRGD, HIGHLIGHT_TRANSFORMER, SAGCOPY)}

load("peft", "testing_utils", {"diffusers": {"StableDiffusionPipeline": object}})
SUITE = load("peft", "test_encoder_decoder_models", {})


class TestTuners(SUITE.TestEncoderDecoderModels):
    """Each test with the models of `MODELS` in place of PEFT's own."""

    @pytest.fixture(autouse=True)
    def folders(self, request, tmp_path, monkeypatch):
        """Saves the test's model under its name in the working directory."""
        monkeypatch.chdir(tmp_path)
        settings = getattr(request.node, "callspec", None)
        if settings is None:
            pytest.skip("a model of the Hub")
        self.architecture = MODELS[settings.params["model_id"]]
        self.architecture.model().float().save_pretrained(self.architecture.name)

    def prepare_inputs_for_testing(self):
        """Two documents, the second of which is shorter."""
        inputs = self.architecture.inputs(rows=2, length=7)
        return {**inputs, "decoder_input_ids": self.architecture.labels(rows=2).clamp(min=0)}


for base in (SUITE.TestEncoderDecoderModels,):
    for function in vars(base).values():
        for mark in list(getattr(function, "pytestmark", ())):
            if mark.args[0] == "model_id":
                function.pytestmark.remove(mark)
                pytest.mark.parametrize("model_id", MODELS)(function)
