"""8-bit inference on CPUs: weights stored as integers, and linear layers that multiply integers."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING, register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

# name of the method in config.json
INT8 = "hf_summ_int8"

# quantized values range from -127 to 127
_LEVELS = 127
# replaces the scale of a zero row, to avoid a division by zero
_TINY = torch.finfo(torch.float32).tiny
# minimum numbers of outputs, and of rows, for which a copy of the weights in the processor's layout pays
_MIN_OUTPUTS, _MIN_ROWS = 8000, 128


def quantize_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize each finite row (R, C) by its own largest magnitude -> int8 from -127 to 127, and scales (R, 1)."""
    scales = _row_scales(rows)
    return _levels(rows, scales), scales


def quantize_weight(weight: torch.Tensor) -> tuple[nn.Parameter, nn.Parameter]:
    """As `quantize_rows`, with scales (R,) of 8 bits of precision, as in bfloat16.

    The product of an integer and its scale is then exact in float32, and quantizing it again changes nothing.
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
    """Whether sums of 8-bit products are exact and fast on this machine.

    Processors without VNNI instructions add pairs of products in 16 bits, which saturate. Their `_int_mm` may still be
    exact, but as a plain loop, many times slower than products in float32.
    """
    # a model may be built on the meta device
    with torch.device("cpu"):
        weight, rows = torch.full((64, 64), _LEVELS, dtype=torch.int8), torch.full((4, 64), 255, dtype=torch.uint8)
        products = _quantized_linear(rows, torch.ops.onednn.qlinear_prepack(weight, None), torch.ones(64), 0)
    return bool((products == 255 * 64 * _LEVELS).all())


def _quantized_linear(rows: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, zero: int) -> torch.Tensor:
    """Rows (R, in_features), uint8, minus `zero`, times packed weights and scales -> (R, out_features), float32."""
    zeros = torch.zeros_like(scale, dtype=torch.int64)
    return torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, zero, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


class Int8Linear(nn.Module):
    """x Wᵀ + b with W quantized by output channel, and x dynamically by row, both symmetrically to 8 bits.

    If sums of 8-bit products are not exact (see `has_exact_products`), they are computed in float32, which saves no
    time, or in output layers in two parts.

    Args:
        weight: (out_features, in_features), int8.
        weight_scale: (out_features,), float32; `weight_scale[:, None] * weight` approximates W.
        bias: (out_features,) or None.
    """

    def __init__(self, weight: nn.Parameter, weight_scale: nn.Parameter, bias: nn.Parameter | None):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight, self.weight_scale, self.bias = weight, weight_scale, bias
        # computed here, as torch.compile cannot trace it
        self._has_exact_products = has_exact_products()
        if self._has_exact_products and self.out_features < _MIN_OUTPUTS:
            # the fastest layout for products; files have the transposed one
            self.weight.data = self.weight.data.T.contiguous().T
        self._packed: torch.Tensor | None = None
        self.eval()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(…, in_features) -> (…, out_features), float32; a ValueError if the inputs need gradients."""
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
        """Quantized rows (R, in_features) -> (R, out_features), float32, before scaling by row."""
        is_wide = self.out_features >= _MIN_OUTPUTS
        # with VNNI instructions, torch leaves the product of a single column undefined
        is_column = self.in_features == 1
        # compiled steps have few rows
        has_few_rows = torch.compiler.is_compiling() or len(rows) < _MIN_ROWS
        if self._has_exact_products and has_few_rows and not (is_wide or is_column):
            return torch._int_mm(rows, self.weight.T).float().mul_(self.weight_scale)
        in_float = is_column or not (is_wide or self._has_exact_products)
        if self._packed is None:
            pack = torch.ops.onednn.qlinear_prepack
            self._packed = self.weight.float() if in_float else pack(self.weight.contiguous(), None)
        if in_float:
            # sums of integers are exact in float32 up to 2²⁴
            return linear(rows.float(), self._packed).mul_(self.weight_scale)
        # the operator is slow for signed rows: flip the highest bit to add 128, which it subtracts again
        shifted = rows.view(torch.uint8) ^ 128
        if self._has_exact_products:
            return _quantized_linear(shifted, self._packed, self.weight_scale, 128)
        # split into two summands of at most 128, whose pairs of products do not saturate
        low = shifted.clamp(max=127)
        products = _quantized_linear(torch.cat((low, shifted - low)), self._packed, self.weight_scale, 64)
        return products[: len(rows)] + products[len(rows) :]

    def in_float(self) -> nn.Linear:
        """A linear layer with the integers, still to be scaled, as its weight."""
        layer = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        layer.weight, layer.weight_scale = self.weight, self.weight_scale
        layer.register_parameter("bias", self.bias)
        return layer

    def train(self, mode: bool = True):
        """Set the mode; for training, raise a ValueError."""
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
        # packed weights can be neither copied nor pickled
        return {**self.__dict__, "_packed": None}


_NOT_TRAINED = "int8 has no gradients: to train, load it without `quantization_config`, or call `dequantize()`"


def refuse_accelerators(devices) -> None:
    """Raise a ValueError if a device of an int8 model, or its name, is no CPU; `meta` is for models before loading."""
    for device in devices:
        if str(device) not in ("cpu", "meta"):
            raise ValueError(f"int8 is for CPUs, but the device is {device}: load without `quantization_config`")


class Int8Embedding(nn.Embedding):
    """An embedding with integer rows and a scale per row; only looked-up rows become float32."""

    weight_scale: nn.Parameter

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Ids (…) -> (…, embedding_dim), float32."""
        return super().forward(input).float() * self.weight_scale[input][..., None]


@dataclass
class Int8Config(QuantizationConfigMixin):
    """The `quantization_config` of `from_pretrained` that loads a model's matrices in 8 bits.

    Linear layers become `Int8Linear`, and embeddings `Int8Embedding`. Recurrent cells and small layers have 8 bits only
    in saved files, and compute in float32 from the same integers. Vectors keep 32 bits.

    Attributes:
        least_weights: linear layers and embeddings with fewer weights are small: in decoding, with few rows, quantizing
            the rows takes longer than the faster product saves.
        dequantize: whether saved files alone have 8 bits, and the model loads in float32, in which it can be trained.
        layout: layout of saved files; only 2 can be read.
        quant_method: name of the method in config.json.
    """

    least_weights: int = 2**17
    dequantize: bool = False
    layout: int = 2
    quant_method: str = INT8

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """transformers' `from_dict`; a ValueError if the files were saved in another layout."""
        # the first layout, with 8 bits only in linear layers, had no number
        layout = config_dict.get("layout", 1)
        if layout != cls.layout:
            raise ValueError(
                f"`layout` is {layout}, but must be {cls.layout}: another version of hf_summ saved these 8 bits; "
                "load the checkpoint in 32 bits with `quantization_config=Int8Config()`, and save it again"
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
        """Raise a ValueError if `device_map` names a device that is not a CPU."""
        if isinstance(device_map, dict):
            refuse_accelerators(device_map.values())

    def update_device_map(self, device_map):
        # a string such as "auto" always means the CPU
        return {"": "cpu"} if isinstance(device_map, str) else device_map

    def update_dtype(self, dtype: torch.dtype) -> torch.dtype:
        # on CPUs, half precision would not speed up the other layers
        return torch.float32

    def _process_model_before_weight_loading(self, model: PreTrainedModel, **kwargs) -> None:
        if self.pre_quantized:
            _quantize(model)

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **kwargs) -> None:
        if not self.pre_quantized:
            _quantize(model)
        if self.quantization_config.dequantize:
            self._dequantize(model)
            return
        _arrange(model, self.quantization_config.least_weights)
        model.requires_grad_(False)

    def _dequantize(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> PreTrainedModel:
        """The model with float32 layers, which can be trained; `model.dequantize()` calls this."""
        for parent in list(model.modules()):
            for name, module in list(parent.named_children()):
                if isinstance(module, Int8Linear):
                    setattr(parent, name, module.in_float())
                elif isinstance(module, Int8Embedding):
                    module.__class__ = nn.Embedding
        _in_float32(model)
        # setting the mode freezes a BERT that is not to be trained
        return model.requires_grad_().train(model.training)

    def get_state_dict_and_metadata(self, model: PreTrainedModel) -> tuple[dict[str, torch.Tensor], dict]:
        """The weights in the layout of files, each matrix in 8 bits, and no metadata."""
        # cached, so tied matrices stay tied
        state, quantize, in_order = {}, cache(quantize_weight), cache(torch.Tensor.contiguous)
        for name, value in model.state_dict(keep_vars=True).items():
            if _is_float_matrix(value):
                state[name], state[f"{name}_scale"] = quantize(value)
            else:
                state[name] = in_order(value)
        # an embedding that computes in 32 bits may share its integers with an output layer in 8 bits
        return state | {name: state[source] for name, source in model.all_tied_weights_keys.items()}, {}


def _is_float_matrix(value: torch.Tensor) -> bool:
    return isinstance(value, nn.Parameter) and value.ndim == 2 and value.is_floating_point()


def _quantize(model: PreTrainedModel) -> None:
    """Replace each matrix of a model by its integers, and register their scales as `weight_scale` for `weight`."""
    # cached, so tied matrices stay tied
    quantize = cache(quantize_weight)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if _is_float_matrix(parameter):
                levels, scale = quantize(parameter)
                setattr(module, name, levels)
                module.register_parameter(f"{name}_scale", scale)
                # integers missing in a file cannot be initialized randomly
                module._is_hf_initialized = True
    names = dict(model.named_parameters(remove_duplicate=False))
    scales = {f"{target}_scale": f"{source}_scale" for target, source in model.all_tied_weights_keys.items()}
    model.all_tied_weights_keys |= {target: source for target, source in scales.items() if target in names}


def _arrange(model: PreTrainedModel, least_weights: int) -> None:
    """Replace large layers by ones that compute with integers, and convert all other integers to float32."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Linear and module.weight.numel() >= least_weights:
                setattr(parent, name, Int8Linear(module.weight, module.weight_scale, module.bias))
            elif type(module) is nn.Embedding and module.weight.numel() >= least_weights:
                # in place, as encoder and decoder share it
                module.__class__ = Int8Embedding
    _in_float32(model)


def _in_float32(model: PreTrainedModel) -> None:
    """Convert integers to float32 in all layers that do not compute with them."""
    # rows in order, as `Int8Linear` may have transposed the integers that they share
    dequantize = cache(lambda levels, scale: nn.Parameter((levels * scale[:, None]).contiguous(), requires_grad=False))
    for module in model.modules():
        if isinstance(module, (Int8Linear, Int8Embedding)):
            continue
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.dtype == torch.int8:
                setattr(module, name, dequantize(parameter, getattr(module, f"{name}_scale")))
                delattr(module, f"{name}_scale")


# a checkpoint saved with its code includes this file, possibly in addition to the installed package's
if INT8 not in AUTO_QUANTIZER_MAPPING:
    register_quantization_config(INT8)(Int8Config)
    register_quantizer(INT8)(Int8Quantizer)
