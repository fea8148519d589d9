"""8-bit inference on CPUs as a quantization method of transformers."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING, register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from .layers_int8 import Int8Linear, refuse_accelerators

# the method's name in config.json
INT8 = "hf_summ_int8"


@dataclass
class Int8Config(QuantizationConfigMixin):
    """The `quantization_config` of `from_pretrained` by which a model's linear layers are `Int8Linear`.

    LayerNorms and embeddings keep their 32 bits. An output layer that shares the embedding's matrix gets an 8-bit copy.

    Attributes:
        least_weights: linear layers with fewer weights keep their 32 bits too: in decoding, when there are few rows,
            quantizing these takes longer than the shorter product saves.
        quant_method: name of the method, as in config.json.
    """

    least_weights: int = 2**17
    quant_method: str = INT8


class Int8Quantizer(HfQuantizer):
    """Loads a model in 8 bits, from its weights in 32 bits or from those that such a model has saved."""

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False

    def validate_environment(self, *args, device_map=None, **kwargs) -> None:
        """Raise a ValueError if `device_map` names a device that is not a CPU."""
        if isinstance(device_map, dict):
            refuse_accelerators(device_map.values())

    def update_device_map(self, device_map):
        # wherever "auto" would place the model
        return {"": "cpu"} if isinstance(device_map, str) else device_map

    def update_dtype(self, dtype: torch.dtype) -> torch.dtype:
        # what is between the linear layers gains nothing from half precision on CPUs
        return torch.float32

    def _process_model_before_weight_loading(self, model: PreTrainedModel, **kwargs) -> None:
        if self.pre_quantized:
            quantize_linears(model, self.quantization_config.least_weights)

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **kwargs) -> None:
        if not self.pre_quantized:
            quantize_linears(model, self.quantization_config.least_weights)
        for module in model.modules():
            if isinstance(module, Int8Linear):
                module.arrange()
        model.requires_grad_(False)


def quantize_linears(model: PreTrainedModel, least_weights: int) -> None:
    """Replace a model's linear layers with at least this many weights by `Int8Linear`."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Linear and module.weight.numel() >= least_weights:
                setattr(parent, name, Int8Linear(module))
    # inner models first: a model's ties include theirs
    for module in reversed(list(model.modules())):
        if isinstance(module, PreTrainedModel):
            _untie(module)


def _untie(model: PreTrainedModel) -> None:
    """Forget ties of 8-bit weights: the float weights that they shared are those of embeddings."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    ties = model._tied_weights_keys or {}
    model._tied_weights_keys = {
        target: source for target, source in ties.items() if parameters[target].is_floating_point()
    }
    model.all_tied_weights_keys = model.get_expanded_tied_weights_keys(all_submodels=True)


# a checkpoint that brings its code along brings this file too, perhaps beside the installed package's
if INT8 not in AUTO_QUANTIZER_MAPPING:
    register_quantization_config(INT8)(Int8Config)
    register_quantizer(INT8)(Int8Quantizer)
