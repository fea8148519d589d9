"""The architectures, and tiny pre-trained parts, for the tests of models."""

import pytest

from tests.models.architectures import EACH, Architecture
from tests.models.pretrained import build, save_bert


@pytest.fixture(params=EACH)
def architecture(request) -> Architecture:
    return request.param


@pytest.fixture
def bert_folder(tmp_path):
    save_bert(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture(params=["log", "probability"])
def conditioned(bert_folder, request):
    """A Transformer whose output a masked language model corrects; with one of the spaces, over BERT's words."""
    settings = {"copy": False, "convolutional_attention": "none", "lm_percentile": 60, "lm_space": request.param}
    if request.param == "probability":
        settings |= {"decoder_embedding": "bert", "output_embedding": "bert", "bert_name": str(bert_folder)}
    model = build(**settings, masked_lm_name=str(bert_folder), lm_training_factor=3.0)
    return model.double().eval()
