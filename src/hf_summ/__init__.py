"""Published summarization architectures as Hugging Face `transformers` models.

Importing the package registers the architectures with the Auto classes, and brings `pipeline("summarization")` back.
"""

from .models import (
    GdlfConfig,
    GdlfForConditionalGeneration,
    GdlfModel,
    GdlfProcessor,
    SummarizationPipeline,
)

__version__ = "0.1.0"

__all__ = [
    "GdlfConfig",
    "GdlfForConditionalGeneration",
    "GdlfModel",
    "GdlfProcessor",
    "SummarizationPipeline",
]
