"""What runs checkpoints on documents: the pipeline of PyTorch models, and exported graphs in ONNX Runtime on CPUs."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.runtimes.onnx_summarizer import OnnxSummarizer

__all__ = ["OnnxSummarizer"]

__getattr__, __dir__ = lazily(__name__, dict.fromkeys(__all__, ".onnx_summarizer"))
