"""8-bit inference on CPUs: weights are stored as integers, and linear layers multiply integers.

A matrix becomes integers from -127 to 127, its levels, and a float32 scale for each row: levels times scale approximate
the matrix.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING, register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

# the name of the method in config.json
INT8 = "hf_summ_int8"

# the largest level
_LEVELS = 127
# the scale of a row of zeros, which avoids a division by zero
_TINY = torch.finfo(torch.float32).tiny
# with at least so many outputs, or so many input rows, a product is faster if the weights are first copied into the
# processor's layout
_MIN_OUTPUTS = 8000
_MIN_ROWS = 128
_NOT_TRAINED = "int8 has no gradients: to train, load it without `quantization_config`, or call `dequantize()`"


def quantize_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize each row by its largest magnitude.

    Args:
        rows: (R, C), finite.

    Returns:
        The levels (R, C), int8, and the scales (R, 1).
    """
    scales = _row_scales(rows)
    return _levels(rows, scales), scales


def quantize_weight(weight: torch.Tensor) -> tuple[nn.Parameter, nn.Parameter]:
    """The levels (R, C) and the scales (R,) of a matrix, as parameters without gradients.

    Scales are rounded to bfloat16, so that a level times its scale is exact in float32. The rounding changes a scale by
    less than .4%, so that the largest level stays 127. Quantizing the dequantized matrix again therefore gives the same
    levels and scales.
    """
    scales = _row_scales(weight.detach()).bfloat16().float()
    levels = _levels(weight.detach(), scales)
    return nn.Parameter(levels, requires_grad=False), nn.Parameter(scales[:, 0], requires_grad=False)


def _row_scales(rows: torch.Tensor) -> torch.Tensor:
    """The scale of each row, (R, 1), with which the largest magnitude of the row becomes the largest level."""
    return rows.abs().amax(1, keepdim=True).mul_(1 / _LEVELS).clamp_min_(_TINY)


def _levels(rows: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The integers, int8, that approximate the rows when they are multiplied by the scales."""
    return (rows / scales).round_().to(torch.int8)


@cache
def has_exact_products() -> bool:
    """Whether sums of 8-bit products are exact and fast on this machine.

    Processors without VNNI instructions add pairs of products in 16 bits, which saturate. On such processors, `_int_mm`
    may still be exact, but is then a plain loop, many times slower than products in float32.
    """
    # a model may be built on the meta device
    with torch.device("cpu"):
        weight = torch.full((64, 64), _LEVELS, dtype=torch.int8)
        rows = torch.full((4, 64), 255, dtype=torch.uint8)
        packed = torch.ops.onednn.qlinear_prepack(weight, None)
        products = _quantized_linear(rows, packed, torch.ones(64), 0)
    return bool((products == 255 * 64 * _LEVELS).all())


def _quantized_linear(rows: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, zero: int) -> torch.Tensor:
    """Multiply rows by a quantized weight.

    Args:
        rows: (R, in_features), uint8.
        packed: the weight's levels in the processor's layout.
        scale: (out_features,), the weight's scales.
        zero: the number that is subtracted from each entry of the rows.

    Returns:
        (R, out_features), float32.
    """
    zeros = torch.zeros_like(scale, dtype=torch.int64)
    return torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, zero, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


class Int8Linear(nn.Module):
    """x Wᵀ + b in 8 bits: W has a scale for each output channel, and each row of x is quantized when it comes in.

    If sums of 8-bit products are not exact on this machine (see `has_exact_products`), the products are computed in
    float32, which saves no time. Layers with many outputs then compute 8-bit products of two parts of x instead.

    Args:
        weight: (out_features, in_features), int8.
        weight_scale: (out_features,), float32; `weight_scale[:, None] * weight` approximates W.
        bias: (out_features,) or None.
    """

    def __init__(self, weight: nn.Parameter, weight_scale: nn.Parameter, bias: nn.Parameter | None):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight = weight
        self.weight_scale = weight_scale
        self.bias = bias
        # the answer is computed here, as torch.compile cannot trace the function
        self._has_exact_products = has_exact_products()
        if self._has_exact_products and self.out_features < _MIN_OUTPUTS:
            # this layout is the fastest for products; files have the transposed layout
            self.weight.data = self.weight.data.T.contiguous().T
        # the weights as `_products` needs them, made at their first use
        self._packed: torch.Tensor | None = None
        self.eval()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The outputs (…, out_features), float32, for inputs (…, in_features).

        Raises:
            ValueError: the inputs need gradients.
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
        """The products of quantized rows (R, in_features) and the weights, before they are scaled by row.

        Returns:
            (R, out_features), float32.
        """
        is_wide = self.out_features >= _MIN_OUTPUTS
        # with VNNI instructions, torch leaves the product of a single column undefined
        is_column = self.in_features == 1
        # compiled steps have few rows
        has_few_rows = torch.compiler.is_compiling() or len(rows) < _MIN_ROWS
        if self._has_exact_products and has_few_rows and not (is_wide or is_column):
            return torch._int_mm(rows, self.weight.T).float().mul_(self.weight_scale)
        if is_column or not (is_wide or self._has_exact_products):
            if self._packed is None:
                self._packed = self.weight.float()
            # sums of integers are exact in float32 up to 2²⁴
            return linear(rows.float(), self._packed).mul_(self.weight_scale)
        if self._packed is None:
            self._packed = torch.ops.onednn.qlinear_prepack(self.weight.contiguous(), None)
        # the operator is slow for signed rows: the flipped highest bit adds 128, which it subtracts again
        shifted = rows.view(torch.uint8) ^ 128
        if self._has_exact_products:
            return _quantized_linear(shifted, self._packed, self.weight_scale, 128)
        # the rows are split into two summands of at most 128 each, whose pairs of products do not saturate
        low = shifted.clamp(max=127)
        products = _quantized_linear(torch.cat((low, shifted - low)), self._packed, self.weight_scale, 64)
        return products[: len(rows)] + products[len(rows) :]

    def in_float(self) -> nn.Linear:
        """A linear layer whose `weight` is the levels, with `weight_scale`; `_in_float` multiplies them."""
        layer = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        layer.weight = self.weight
        layer.weight_scale = self.weight_scale
        layer.register_parameter("bias", self.bias)
        return layer

    def train(self, mode: bool = True):
        """Set the mode.

        Raises:
            ValueError: `mode` is true, the mode of training.
        """
        if mode:
            raise ValueError(_NOT_TRAINED)
        return super().train(mode)

    def _apply(self, fn, recurse=True):
        # the function moves tensors to the device
        refuse_accelerators([fn(torch.empty(0)).device])
        self._packed = None
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args, **kwargs):
        self._packed = None
        super()._load_from_state_dict(*args, **kwargs)

    def __getstate__(self):
        # packed weights can be neither copied nor pickled
        return {**self.__dict__, "_packed": None}


def refuse_accelerators(devices) -> None:
    """Raise a ValueError unless each device, or its name, is a CPU, or `meta`, where models are before loading."""
    for device in devices:
        if str(device) not in ("cpu", "meta"):
            raise ValueError(f"int8 is for CPUs, but the device is {device}: load without `quantization_config`")


class Int8Embedding(nn.Embedding):
    """An embedding whose `weight` has levels, with a scale for each row. A row becomes float32 when it is looked up."""

    weight_scale: nn.Parameter

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The embeddings (…, embedding_dim), float32, of ids (…)."""
        return super().forward(input).float() * self.weight_scale[input][..., None]


@dataclass
class Int8Config(QuantizationConfigMixin):
    """The `quantization_config` of `from_pretrained` that loads a model's matrices in 8 bits.

    Large linear layers become `Int8Linear`, and large embeddings `Int8Embedding`. Small layers, small embeddings and
    recurrent cells have 8 bits only in saved files, and compute in float32 from the same integers. Vectors keep 32
    bits.

    Attributes:
        least_weights: linear layers and embeddings with fewer weights are small. For a small layer, quantizing the few
            rows of a decoding step takes longer than the faster product saves.
        dequantize: whether only saved files have 8 bits. They load in float32, in which the model can be trained, or in
            the given `dtype`.
        layout: version of the layout of saved files; only 2 can be read.
        quant_method: name of the method in config.json.
    """

    least_weights: int = 2**17
    dequantize: bool = False
    layout: int = 2
    quant_method: str = INT8

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """Make a config as transformers does, and raise a ValueError if the files were saved in another layout."""
        # the first layout, with 8 bits only in linear layers, had no number
        layout = config_dict.get("layout", 1)
        if layout != cls.layout:
            raise ValueError(
                f"`layout` is {layout}, but must be {cls.layout}: another version of hf_summ saved these 8 bits; "
                "load the checkpoint that it was made of with `quantization_config=Int8Config()`, and save it again"
            )
        return super().from_dict(config_dict, **kwargs)


class Int8Quantizer(HfQuantizer):
    """Loads a model in 8 bits, from 32-bit weights or from saved 8-bit weights."""

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False

    def validate_environment(self, *args, device_map=None, **kwargs) -> None:
        """Raise a ValueError if the model computes in 8 bits and `device_map` names a device that is not a CPU."""
        if isinstance(device_map, dict) and not self.quantization_config.dequantize:
            refuse_accelerators(device_map.values())

    def update_device_map(self, device_map):
        if isinstance(device_map, str) and not self.quantization_config.dequantize:
            # a string such as "auto" always means the CPU
            return {"": "cpu"}
        return device_map

    def update_dtype(self, dtype: torch.dtype) -> torch.dtype:
        if self.pre_quantized and self.quantization_config.dequantize:
            # only files have 8 bits, so the model computes as the user says, by default in float32 as it was saved
            return dtype
        # on CPUs, half precision would not speed up the other layers
        return torch.float32

    def _process_model_before_weight_loading(self, model: PreTrainedModel, **kwargs) -> None:
        if self.pre_quantized:
            _quantize(model)

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **kwargs) -> None:
        """Quantize weights of 32 bits, and make the layers compute with integers, or not with `dequantize`.

        Raises:
            ValueError: weights are offloaded.
        """
        is_offloaded = hasattr(model, "hf_device_map") and any(parameter.is_meta for parameter in model.parameters())
        if is_offloaded:
            # integers would be read from the disk without their scales
            raise ValueError(
                "`device_map` offloads weights, but a model with 8 bits in its files cannot be offloaded: name devices "
                "with room for the whole model"
            )
        if not self.pre_quantized:
            _quantize(model)
        if self.quantization_config.dequantize:
            self._dequantize(model)
            return
        _arrange(model, self.quantization_config.least_weights)
        model.requires_grad_(False)

    def _dequantize(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> PreTrainedModel:
        """Replace the layers of 8 bits by layers in floating point, in place, so that the model can be trained.

        Args:
            model: the model, which is also returned.
            dtype: ignored; transformers' `model.dequantize()` passes it.
        """
        for parent in list(model.modules()):
            for name, module in list(parent.named_children()):
                if isinstance(module, Int8Linear):
                    setattr(parent, name, module.in_float())
                elif isinstance(module, Int8Embedding):
                    module.__class__ = nn.Embedding
        _in_float(model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not _is_computed(model, name))
        # setting the mode freezes a BERT that is not to be trained
        return model.train(model.training)

    def get_state_dict_and_metadata(self, model: PreTrainedModel) -> tuple[dict[str, torch.Tensor], dict]:
        """The weights in the layout of files, each matrix in 8 bits, and no metadata."""
        # a tied matrix gets the result of its first conversion, so that it stays tied
        quantize_once = cache(quantize_weight)
        make_contiguous_once = cache(torch.Tensor.contiguous)
        state: dict[str, torch.Tensor] = {}
        for name, value in model.state_dict(keep_vars=True).items():
            if _is_quantized(model, name, value):
                state[name], state[f"{name}_scale"] = quantize_once(value)
            else:
                state[name] = make_contiguous_once(value)
        # an embedding that computes in 32 bits may share its integers with an output layer in 8 bits
        for name, source_name in model.all_tied_weights_keys.items():
            state[name] = state[source_name]
        return state, {}


def _is_computed(model: PreTrainedModel, name: str) -> bool:
    """Whether files lack a parameter, such as a Marian's positions, because the model computes it when it is loaded."""
    return name in (model._keys_to_ignore_on_save or ())


def _is_quantized(model: PreTrainedModel, name: str, value: torch.Tensor) -> bool:
    """Whether files have a tensor of a model in 8 bits, and the tensor is not yet quantized."""
    is_matrix = isinstance(value, nn.Parameter) and value.ndim == 2 and value.is_floating_point()
    return is_matrix and not _is_computed(model, name)


def _quantize(model: PreTrainedModel) -> None:
    """Replace each matrix of a model by its levels, and register its scales, such as `weight_scale` for `weight`."""
    # a tied matrix gets the result of its first conversion, so that it stays tied
    quantize_once = cache(quantize_weight)
    for module_name, module in model.named_modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if _is_quantized(model, f"{module_name}.{name}", parameter):
                levels, scale = quantize_once(parameter)
                # with `dequantize`, the matrix computes in the precision in which its scales are loaded
                scale.data = scale.to(parameter.dtype)
                setattr(module, name, levels)
                module.register_parameter(f"{name}_scale", scale)
                # integers that a file lacks cannot be initialized randomly
                module._is_hf_initialized = True
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    # where matrices are tied, their scales are tied too
    tied_scales: dict[str, str] = {}
    for target, source in model.all_tied_weights_keys.items():
        if f"{target}_scale" in names:
            tied_scales[f"{target}_scale"] = f"{source}_scale"
    model.all_tied_weights_keys |= tied_scales


def _arrange(model: PreTrainedModel, least_weights: int) -> None:
    """Replace large layers by layers that compute with integers, and convert all other integers to float32.

    Args:
        least_weights: the number of weights from which a layer is large.
    """
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Linear and module.weight.numel() >= least_weights:
                setattr(parent, name, Int8Linear(module.weight, module.weight_scale, module.bias))
            elif type(module) is nn.Embedding and module.weight.numel() >= least_weights:
                # changed in place, as encoder and decoder share the embedding
                module.__class__ = Int8Embedding
    _in_float(model)


def _in_float(model: PreTrainedModel) -> None:
    """Convert integers to their scales' precision in all layers that do not compute with them."""
    # a tied matrix gets the result of its first conversion, so that it stays tied
    dequantize_once = cache(_dequantized)
    for module in model.modules():
        if isinstance(module, (Int8Linear, Int8Embedding)):
            continue
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.dtype == torch.int8:
                scale = getattr(module, f"{name}_scale")
                setattr(module, name, dequantize_once(parameter, scale))
                delattr(module, f"{name}_scale")


def _dequantized(levels: torch.Tensor, scale: torch.Tensor) -> nn.Parameter:
    """The matrix (R, C) of levels (R, C) and scales (R,), in the precision of the scales."""
    # `Int8Linear` may have changed the layout of the levels
    return nn.Parameter((levels * scale[:, None]).contiguous(), requires_grad=False)


def dequantized_weights(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of a saved model in 8 bits, by name, with float32 matrices in place of levels and scales."""
    dequantized = dict(weights)
    for name, levels in weights.items():
        if levels.dtype == torch.int8:
            scale = dequantized.pop(f"{name}_scale").float()
            dequantized[name] = levels * scale[:, None]
    return dequantized


# a checkpoint saved with its code includes this file, possibly in addition to the installed package's
if INT8 not in AUTO_QUANTIZER_MAPPING:
    register_quantization_config(INT8)(Int8Config)
    register_quantizer(INT8)(Int8Quantizer)
