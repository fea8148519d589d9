"""Published summarization architectures as Hugging Face `transformers` models.

Importing the package registers the architectures with the Auto classes and restores `pipeline("summarization")`.
"""

from .data import SummarizationCollator
from .models import (
    CopyTransformerConfig,
    CopyTransformerForConditionalGeneration,
    CopyTransformerModel,
    CopyTransformerProcessor,
    DrgdConfig,
    DrgdForConditionalGeneration,
    DrgdModel,
    DrgdProcessor,
    GdlfConfig,
    GdlfForConditionalGeneration,
    GdlfModel,
    GdlfProcessor,
    HighlightTransformerConfig,
    HighlightTransformerForConditionalGeneration,
    HighlightTransformerModel,
    HighlightTransformerProcessor,
    Int8Config,
    SagCopyConfig,
    SagCopyForConditionalGeneration,
    SagCopyModel,
    SagCopyProcessor,
    SummarizationPipeline,
)
from .models.pipeline_long_documents import SHORTENERS
from .shortening import extract, windows

SHORTENERS.update(extract=extract, windows=windows)

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
    "SagCopyConfig",
    "SagCopyForConditionalGeneration",
    "SagCopyModel",
    "SagCopyProcessor",
    "SummarizationCollator",
    "SummarizationPipeline",
]
