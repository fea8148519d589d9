"""8-bit inference on CPUs: linear layers whose products are of integers, and a quantization method that makes them."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING, register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

# the method's name in config.json
INT8 = "hf_summ_int8"

# quantized values go from -127 to 127
_LEVELS = 127
# stands in for the scale of a row of zeros, by which it is divided
_TINY = torch.finfo(torch.float32).tiny
# from so many outputs on, a copy of the weights in the processor's own order pays: few rows read them once a step
_WIDE = 8192


def quantize_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row by its own largest magnitude, so that it does not depend on the rows beside it.

    Args:
        rows: (R, C), finite.

    Returns:
        (R, C), int8 from -127 to 127, and scales (R, 1): the row is about their product.
    """
    scales = rows.abs().amax(1, keepdim=True).mul_(1 / _LEVELS).clamp_min_(_TINY)
    return (rows / scales).round_().to(torch.int8), scales


@cache
def has_exact_products() -> bool:
    """Whether sums of 8-bit products are exact here, and fast.

    Processors without VNNI instructions add pairs of products in 16 bits, which saturate. Their `_int_mm` may be exact
    all the same, but it is then a plain loop, many times slower than products in float32.
    """
    # a model may be built where there are only shapes
    with torch.device("cpu"):
        weight, rows = torch.full((64, 64), _LEVELS, dtype=torch.int8), torch.full((4, 64), 255, dtype=torch.uint8)
        products = _quantized_linear(rows, torch.ops.onednn.qlinear_prepack(weight, None), torch.ones(64))
    return bool((products == 64 * _LEVELS**2).all())


def _quantized_linear(shifted: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Rows plus 128 (R, in_features), uint8, times packed weights -> (R, out_features), float32, times the scale."""
    zeros = torch.zeros_like(scale, dtype=torch.int64)
    return torch.ops.onednn.qlinear_pointwise(
        shifted, 1.0, 128, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


class Int8Linear(nn.Module):
    """x Wᵀ + b with W quantized by output channel, and x by row as it comes, both symmetrically to 8 bits.

    Where 8-bit products are not exact (see `has_exact_products`) they are computed in float32, which saves no time.

    Args:
        linear: the layer to quantize, in float32; its bias is shared.

    Attributes:
        weight: (out_features, in_features), int8.
        scale: (out_features,), float32; W is about `scale[:, None] * weight`.
        bias: (out_features,) or None.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight, scale = quantize_rows(linear.weight.detach())
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.scale = nn.Parameter(scale[:, 0], requires_grad=False)
        self.bias = linear.bias
        self._packed: torch.Tensor | None = None
        # asked here, as torch.compile cannot ask
        self._has_exact_products = has_exact_products()
        self.arrange()
        self.eval()

    def arrange(self) -> None:
        """Put the weights into the memory order in which products read them fastest; files have them in the other."""
        self.weight.data = self.weight.data.T.contiguous().T

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(…, in_features) -> (…, out_features), float32.

        Raises:
            ValueError: gradients are to flow through the layer.
        """
        if inputs.requires_grad and torch.is_grad_enabled():
            raise ValueError(_NOT_TRAINED)
        rows, scales = quantize_rows(inputs.reshape(-1, self.in_features))
        products = self._products(rows)
        if self.bias is None:
            outputs = products.mul_(scales)
        else:
            outputs = torch.addcmul(self.bias, products, scales, out=products)
        return outputs.view(*inputs.shape[:-1], self.out_features)

    def _products(self, rows: torch.Tensor) -> torch.Tensor:
        """Quantized rows (R, in_features) -> (R, out_features), float32, still to be scaled by row."""
        if not self._has_exact_products:
            # up to 2²⁴ sums of integers are exact in float32
            return (rows.float() @ self.weight.float().T).mul_(self.scale)
        if self.out_features < _WIDE:
            return torch._int_mm(rows, self.weight.T).float().mul_(self.scale)
        if self._packed is None:
            self._packed = torch.ops.onednn.qlinear_prepack(self.weight.contiguous(), None)
        # this operator is slow for signed rows: flipping the highest bit adds 128, which it subtracts again
        return _quantized_linear(rows.view(torch.uint8) ^ 128, self._packed, self.scale)

    def train(self, mode: bool = True):
        """Set the mode.

        Raises:
            ValueError: it is that of training.
        """
        if mode:
            raise ValueError(_NOT_TRAINED)
        return super().train(mode)

    def _apply(self, fn, recurse=True):
        refuse_accelerators([fn(torch.empty(0)).device])
        self._packed = None
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args, **kwargs):
        self._packed = None
        super()._load_from_state_dict(*args, **kwargs)

    def __getstate__(self):
        # the copy in the processor's order can be neither copied nor pickled
        return {**self.__dict__, "_packed": None}

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


_NOT_TRAINED = "int8 has no gradients: to train the model, load it without `quantization_config`"


def refuse_accelerators(devices) -> None:
    """Raise a ValueError if an int8 model is to be on one of these devices.

    Args:
        devices: devices or their names; `meta`, where models are built before they are loaded, is none to refuse.
    """
    for device in devices:
        if str(device) not in ("cpu", "meta"):
            raise ValueError(
                f"int8 is for CPUs, but the model is to be on {device}: load it without `quantization_config`, or with "
                '`device_map="cpu"`'
            )


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
