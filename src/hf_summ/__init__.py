"""Published summarization architectures as Hugging Face `transformers` models.

Importing the package registers the architectures with the Auto classes and restores `pipeline("summarization")`.
"""

from typing import TYPE_CHECKING

from .common.lazy import lazily
from .registration import PUBLIC_NAMES, register

if TYPE_CHECKING:
    from .data.collator import SummarizationCollator
    from .models.configuration_copy_transformer import CopyTransformerConfig
    from .models.configuration_drgd import DrgdConfig
    from .models.configuration_gdlf import GdlfConfig
    from .models.configuration_highlight_transformer import HighlightTransformerConfig
    from .models.configuration_pointer_generator import PointerGeneratorConfig
    from .models.configuration_sagcopy import SagCopyConfig
    from .models.modeling_copy_transformer import CopyTransformerForConditionalGeneration, CopyTransformerModel
    from .models.modeling_drgd import DrgdForConditionalGeneration, DrgdModel
    from .models.modeling_gdlf import GdlfForConditionalGeneration, GdlfModel
    from .models.modeling_highlight_transformer import (
        HighlightTransformerForConditionalGeneration,
        HighlightTransformerModel,
    )
    from .models.modeling_pointer_generator import PointerGeneratorForConditionalGeneration, PointerGeneratorModel
    from .models.modeling_sagcopy import SagCopyForConditionalGeneration, SagCopyModel
    from .models.processing_copy_transformer import CopyTransformerProcessor
    from .models.processing_drgd import DrgdProcessor
    from .models.processing_gdlf import GdlfProcessor
    from .models.processing_highlight_transformer import HighlightTransformerProcessor
    from .models.processing_pointer_generator import PointerGeneratorProcessor
    from .models.processing_sagcopy import SagCopyProcessor
    from .models.quantization_int8 import Int8Config
    from .pretrained import bundled_model, summarizer
    from .runtimes.pipeline import SummarizationPipeline

__version__ = "0.1.0"

__all__ = [
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
    "PointerGeneratorConfig",
    "PointerGeneratorForConditionalGeneration",
    "PointerGeneratorModel",
    "PointerGeneratorProcessor",
    "SagCopyConfig",
    "SagCopyForConditionalGeneration",
    "SagCopyModel",
    "SagCopyProcessor",
    "SummarizationCollator",
    "SummarizationPipeline",
    "bundled_model",
    "summarizer",
]

__getattr__, __dir__ = lazily(__name__, PUBLIC_NAMES)
register()
