"""The architectures, registered with transformers' Auto classes, and their pipeline."""

import transformers.pipelines
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoProcessor

from .configuration_copy_transformer import CopyTransformerConfig
from .configuration_drgd import DrgdConfig
from .configuration_gdlf import GdlfConfig
from .configuration_highlight_transformer import HighlightTransformerConfig
from .configuration_sagcopy import SagCopyConfig
from .modeling_copy_transformer import CopyTransformerForConditionalGeneration, CopyTransformerModel
from .modeling_drgd import DrgdForConditionalGeneration, DrgdModel
from .modeling_gdlf import GdlfForConditionalGeneration, GdlfModel
from .modeling_highlight_transformer import (
    HighlightTransformerForConditionalGeneration,
    HighlightTransformerModel,
)
from .modeling_sagcopy import SagCopyForConditionalGeneration, SagCopyModel
from .pipeline_summarization import SummarizationPipeline
from .processing_copy_transformer import CopyTransformerProcessor
from .processing_drgd import DrgdProcessor
from .processing_gdlf import GdlfProcessor
from .processing_highlight_transformer import HighlightTransformerProcessor
from .processing_sagcopy import SagCopyProcessor
from .quantization_int8 import Int8Config

__all__ = [
    "LORA_TARGET_MODULES",
    "CopyTransformerConfig",
    "CopyTransformerForConditionalGeneration",
    "CopyTransformerModel",
    "CopyTransformerProcessor",
    "DrgdConfig",
    "DrgdForConditionalGeneration",
    "DrgdModel",
    "DrgdProcessor",
    "GdlfConfig",
    "GdlfForConditionalGeneration",
    "GdlfModel",
    "GdlfProcessor",
    "HighlightTransformerConfig",
    "HighlightTransformerForConditionalGeneration",
    "HighlightTransformerModel",
    "HighlightTransformerProcessor",
    "Int8Config",
    "SagCopyConfig",
    "SagCopyForConditionalGeneration",
    "SagCopyModel",
    "SagCopyProcessor",
    "SummarizationPipeline",
]

_ARCHITECTURES = (
    (GdlfConfig, GdlfModel, GdlfForConditionalGeneration, GdlfProcessor),
    (
        CopyTransformerConfig,
        CopyTransformerModel,
        CopyTransformerForConditionalGeneration,
        CopyTransformerProcessor,
    ),
    (DrgdConfig, DrgdModel, DrgdForConditionalGeneration, DrgdProcessor),
    (
        HighlightTransformerConfig,
        HighlightTransformerModel,
        HighlightTransformerForConditionalGeneration,
        HighlightTransformerProcessor,
    ),
    (SagCopyConfig, SagCopyModel, SagCopyForConditionalGeneration, SagCopyProcessor),
)

# architecture -> modules that PEFT's LoRA adapts when its config names none: the queries and values of attention, as
# for BART, and the projection that predicts a convolution's kernels, which corresponds to queries
LORA_TARGET_MODULES: dict[str, list[str]] = {
    "gdlf": ["q_proj", "v_proj", "kernel_projection"],
    "copy_transformer": ["q_proj", "v_proj"],
    "drgd": ["key_projection", "projection"],
    "highlight_transformer": ["q_proj", "v_proj"],
    "sagcopy": ["q_proj", "v_proj"],
}

# what PEFT's IA3 scales: keys, values and the input of the second layer of feed-forward networks (Liu et al. 2022)
_IA3_FEEDFORWARD_MODULES = {
    "gdlf": ["feed_forward.outer"],
    "copy_transformer": ["feed_forward.outer"],
    "drgd": [],
    "highlight_transformer": ["feed_forward.outer"],
    "sagcopy": ["feed_forward.outer"],
}
_IA3_TARGET_MODULES = {
    name: [*(["key_projection"] if name == "drgd" else ["k_proj", "v_proj"]), *modules]
    for name, modules in _IA3_FEEDFORWARD_MODULES.items()
}

try:
    from peft.utils import (
        TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING,
        TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING,
        TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING,
    )
except ImportError:
    pass
else:
    TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.update(LORA_TARGET_MODULES)
    TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING.update(_IA3_TARGET_MODULES)
    TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING.update(_IA3_FEEDFORWARD_MODULES)

for _config, _model, _head, _processor in _ARCHITECTURES:
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _model, exist_ok=True)
    AutoModelForSeq2SeqLM.register(_config, _head, exist_ok=True)
    AutoProcessor.register(_config, _processor, exist_ok=True)
    # a saved checkpoint brings its code along, for users who have not installed the package
    _config.register_for_auto_class()
    _model.register_for_auto_class("AutoModel")
    _head.register_for_auto_class("AutoModelForSeq2SeqLM")
    _processor.register_for_auto_class()

# transformers looks for removed tasks before it looks for registered ones
transformers.pipelines.REMOVED_TASKS.pop("summarization", None)
transformers.pipelines.PIPELINE_REGISTRY.register_pipeline(
    "summarization",
    pipeline_class=SummarizationPipeline,
    pt_model=AutoModelForSeq2SeqLM,
    # that of transformers 4
    default={"model": ("sshleifer/distilbart-cnn-12-6", "a4f8f3e")},
    type="text",
)
