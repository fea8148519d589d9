"""8-bit inference on CPUs: weights that are stored as integers, and linear layers whose products are of integers."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from torch.nn.functional import linear
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
_WIDE = 8000


def quantize_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row by its own largest magnitude, so that it does not depend on the rows beside it.

    Args:
        rows: (R, C), finite.

    Returns:
        (R, C), int8 from -127 to 127, and scales (R, 1): the row is about their product.
    """
    scales = _row_scales(rows)
    return _levels(rows, scales), scales


def quantize_weight(weight: torch.Tensor) -> tuple[nn.Parameter, nn.Parameter]:
    """As `quantize_rows`, with scales (R,) of 8 digits, as in bfloat16.

    So the product of an integer and its scale is exact in float32, and to quantize the products gives the same again.
    """
    scales = _row_scales(weight.detach()).bfloat16().float()
    levels = _levels(weight.detach(), scales)
    return nn.Parameter(levels, requires_grad=False), nn.Parameter(scales[:, 0], requires_grad=False)


def _row_scales(rows: torch.Tensor) -> torch.Tensor:
    return rows.abs().amax(1, keepdim=True).mul_(1 / _LEVELS).clamp_min_(_TINY)


def _levels(rows: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (rows / scales).round_().to(torch.int8)


@cache
def has_exact_products() -> bool:
    """Whether sums of 8-bit products are exact here, and fast.

    Processors without VNNI instructions add pairs of products in 16 bits, which saturate. Their `_int_mm` may be exact
    all the same, but it is then a plain loop, many times slower than products in float32.
    """
    # a model may be built where there are only shapes
    with torch.device("cpu"):
        weight, rows = torch.full((64, 64), _LEVELS, dtype=torch.int8), torch.full((4, 64), 255, dtype=torch.uint8)
        products = _quantized_linear(rows, torch.ops.onednn.qlinear_prepack(weight, None), torch.ones(64), 0)
    return bool((products == 255 * 64 * _LEVELS).all())


def _quantized_linear(rows: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, zero: int) -> torch.Tensor:
    """Rows (R, in_features), uint8, less `zero`, times packed weights and scales -> (R, out_features), float32."""
    zeros = torch.zeros_like(scale, dtype=torch.int64)
    return torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, zero, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


class Int8Linear(nn.Module):
    """x Wᵀ + b with W quantized by output channel, and x by row as it comes, both symmetrically to 8 bits.

    Where sums of 8-bit products are not exact (see `has_exact_products`) they are computed in float32, which saves no
    time, or, of output layers, in two parts.

    Args:
        weight: (out_features, in_features), int8.
        weight_scale: (out_features,), float32; W is about `weight_scale[:, None] * weight`.
        bias: (out_features,) or None.
    """

    def __init__(self, weight: nn.Parameter, weight_scale: nn.Parameter, bias: nn.Parameter | None):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight, self.weight_scale, self.bias = weight, weight_scale, bias
        # asked here, as torch.compile cannot ask
        self._has_exact_products = has_exact_products()
        if self._has_exact_products and self.out_features < _WIDE:
            # in the order in which products read them fastest; files have them in the other
            self.weight.data = self.weight.data.T.contiguous().T
        self._packed: torch.Tensor | None = None
        self.eval()

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
        is_wide = self.out_features >= _WIDE
        if self._has_exact_products and not is_wide:
            return torch._int_mm(rows, self.weight.T).float().mul_(self.weight_scale)
        if self._packed is None:
            pack = torch.ops.onednn.qlinear_prepack
            self._packed = pack(self.weight.contiguous(), None) if is_wide else self.weight.float()
        if not is_wide:
            # up to 2²⁴ sums of integers are exact in float32
            return linear(rows.float(), self._packed).mul_(self.weight_scale)
        # this operator is slow for signed rows: flipping the highest bit adds 128, which it subtracts again
        shifted = rows.view(torch.uint8) ^ 128
        if self._has_exact_products:
            return _quantized_linear(shifted, self._packed, self.weight_scale, 128)
        # in two parts of at most 128, pairs of whose products do not saturate
        low = shifted.clamp(max=127)
        parts = _quantized_linear(torch.cat((low, shifted - low)), self._packed, self.weight_scale, 64)
        return parts[: len(rows)] + parts[len(rows) :]

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
        # what is in the processor's order can be neither copied nor pickled
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


class Int8Embedding(nn.Embedding):
    """An embedding whose rows are integers with a scale each, of which only those that are looked up become float32."""

    weight_scale: nn.Parameter

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Ids (…) -> (…, embedding_dim), float32."""
        return super().forward(input).float() * self.weight_scale[input][..., None]


@dataclass
class Int8Config(QuantizationConfigMixin):
    """The `quantization_config` of `from_pretrained` by which a model's matrices have 8 bits.

    Linear layers become `Int8Linear`, and embeddings `Int8Embedding`. Recurrent cells and what is small have 8 bits
    only in saved files, and are computed in float32 from the same integers. Vectors keep their 32 bits.

    Attributes:
        least_weights: linear layers and embeddings with fewer weights are among the small: in decoding, when there are
            few rows, quantizing these takes longer than the shorter product saves.
        layout: of saved files; no other than 2 can be read.
        quant_method: name of the method, as in config.json.
    """

    least_weights: int = 2**17
    layout: int = 2
    quant_method: str = INT8

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """transformers' `from_dict`.

        Raises:
            ValueError: the files were saved in another layout.
        """
        # the first layout, in which linear layers alone had 8 bits, had no number
        layout = config_dict.get("layout", 1)
        if layout != cls.layout:
            raise ValueError(
                f"`layout` is {layout}, but must be {cls.layout}: another version of hf_summ saved these 8 bits; "
                "load the checkpoint in 32 bits with `quantization_config=Int8Config()`, and save it again"
            )
        return super().from_dict(config_dict, **kwargs)


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
            _quantize(model)

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **kwargs) -> None:
        if not self.pre_quantized:
            _quantize(model)
        _arrange(model, self.quantization_config.least_weights)
        model.requires_grad_(False)

    def get_state_dict_and_metadata(self, model: PreTrainedModel) -> tuple[dict[str, torch.Tensor], dict]:
        """The weights as files have them, each matrix in 8 bits, and no metadata."""
        # tied matrices stay tied
        state, quantize, in_order = {}, cache(quantize_weight), cache(torch.Tensor.contiguous)
        for name, value in model.state_dict(keep_vars=True).items():
            if _is_float_matrix(value):
                state[name], state[f"{name}_scale"] = quantize(value)
            else:
                state[name] = in_order(value)
        return state, {}


def _is_float_matrix(value: torch.Tensor) -> bool:
    return isinstance(value, nn.Parameter) and value.ndim == 2 and value.is_floating_point()


def _quantize(model: PreTrainedModel) -> None:
    """Replace each matrix of a model by its integers, and put their scales beside it, `weight_scale` for `weight`."""
    # tied matrices stay tied
    quantize = cache(quantize_weight)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if _is_float_matrix(parameter):
                levels, scale = quantize(parameter)
                setattr(module, name, levels)
                module.register_parameter(f"{name}_scale", scale)
                # integers that a file lacks cannot be drawn
                module._is_hf_initialized = True
    names = dict(model.named_parameters(remove_duplicate=False))
    scales = {f"{target}_scale": f"{source}_scale" for target, source in model.all_tied_weights_keys.items()}
    model.all_tied_weights_keys |= {target: source for target, source in scales.items() if target in names}


def _arrange(model: PreTrainedModel, least_weights: int) -> None:
    """Give the integers of a model to layers that compute with them, and turn the others into float32."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Linear and module.weight.numel() >= least_weights:
                setattr(parent, name, Int8Linear(module.weight, module.weight_scale, module.bias))
            elif type(module) is nn.Embedding and module.weight.numel() >= least_weights:
                # in place, as encoder and decoder share it
                module.__class__ = Int8Embedding
    dequantize = cache(lambda levels, scale: nn.Parameter(levels * scale[:, None], requires_grad=False))
    for module in model.modules():
        if isinstance(module, (Int8Linear, Int8Embedding)):
            continue
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.dtype == torch.int8:
                setattr(module, name, dequantize(parameter, getattr(module, f"{name}_scale")))
                delattr(module, f"{name}_scale")


# a checkpoint that brings its code along brings this file too, perhaps beside the installed package's
if INT8 not in AUTO_QUANTIZER_MAPPING:
    register_quantization_config(INT8)(Int8Config)
    register_quantizer(INT8)(Int8Quantizer)
