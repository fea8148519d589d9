"""The bundled models: folders in this one, each with a phrase in `purpose.txt` that says what the model writes."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_summ.common.messages import check_choice
from hf_summ.common.processes import threads_for
from hf_summ.runtimes.folders import ONNX, RUNTIME_FILE
from hf_summ.runtimes.settings import UnsupportedSetting, needs_pytorch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from hf_summ.runtimes.onnx_summarizer import OnnxSummarizer
    from hf_summ.runtimes.pipeline import SummarizationPipeline

DEFAULT_MODEL = "arxiv-tldr"
FOLDER = Path(__file__).parent

PYTORCH = "pytorch"
_PURPOSE = "purpose.txt"


def bundled_model(name: str = DEFAULT_MODEL) -> Path:
    """The folder of a bundled model, as in `pipeline("summarization", model=bundled_model())`.

    Args:
        name: one of `bundled_models`.

    Raises:
        ValueError: there is no such model.
    """
    check_choice("`name`", name, bundled_models())
    return FOLDER / name


def graphs_of(name: str) -> Path | None:
    """The graphs of a bundled model; None without them, or without onnxruntime."""
    folder = FOLDER / name / "onnx"
    return folder if folder.is_dir() and find_spec("onnxruntime") is not None else None


def model_folder(name: str) -> str:
    """The folder of a bundled model by its name; the name of a folder or of a Hub repository is returned unchanged."""
    return str(bundled_model(name)) if is_bundled(name) else name


def is_bundled(name: str) -> bool:
    """Whether a name is that of a bundled model, and not of a folder here."""
    return name in bundled_models() and not Path(name).is_dir()


def choose_runtime(name: str | None, runtime: str | None, settings: Mapping[str, Any]) -> tuple[str, str | None]:
    """The checkpoint to load, and the runtime of its graphs; without the latter, PyTorch decodes.

    Graphs decode if their folder is named, and for bundled models that have them, if no setting needs PyTorch.

    Args:
        name: a folder, or the name of a bundled model or of a Hub repository; None means the default model.
        runtime: the runtime that the user chose.
        settings: the user's settings of the pipeline and of `generate()`.
    """
    if name is None or is_bundled(name):
        name = DEFAULT_MODEL if name is None else name
        graphs = graphs_of(name)
        if graphs is None or runtime == PYTORCH or needs_pytorch(settings):
            return str(bundled_model(name)), runtime
        return str(graphs), ONNX
    if runtime is None and (Path(name) / RUNTIME_FILE).is_file():
        return name, ONNX
    return name, runtime


def load_graphs(checkpoint: str, **settings: Any) -> "OnnxSummarizer | None":
    """The summarizer of a checkpoint's graphs; None if a setting needs PyTorch, and PyTorch is installed."""
    from hf_summ.runtimes.onnx_summarizer import OnnxSummarizer

    try:
        return OnnxSummarizer(checkpoint, **settings)
    except UnsupportedSetting:
        if find_spec("torch") is None:
            raise
    return None


def load_pipeline(model: "str | PreTrainedModel", **settings: Any) -> "SummarizationPipeline":
    """The pipeline of a model, for which PyTorch has as many threads as there are idle processors."""
    import torch
    from transformers import pipeline

    threads = threads_for(1, only_idle=True)
    if threads is not None:
        torch.set_num_threads(threads)
    # transformers declares a fixed list of tasks
    build: Any = pipeline
    return build("summarization", model=model, **settings)


def summarizer(
    model: "str | os.PathLike | PreTrainedModel | None" = None, *, runtime: str | None = None, **settings: Any
) -> "SummarizationPipeline | OnnxSummarizer":
    """A model's summarizer, as `hf-summ summarize` loads it.

    Exported graphs decode without PyTorch and transformers, those of the bundled models in 8 bits. For other models and
    settings, it is `pipeline("summarization")`. Both use idle processors alone, or OMP_NUM_THREADS threads, and show
    their progress over several texts, unless they are called with `show_progress=False`.

    Args:
        model: a folder, the name of a bundled model or of a Hub repository, or a model; by default the bundled model
            that writes what a paper does in a sentence.
        runtime: "onnx" or "pytorch"; by default "onnx" for a folder of graphs, and for bundled models if no setting
            needs PyTorch.
        settings: those of `transformers.pipeline` and of `SummarizationPipeline`.

    Raises:
        ValueError: the model cannot be used.
        OSError: there is no such model.
    """
    if runtime is not None:
        check_choice("`runtime`", runtime, (ONNX, PYTORCH))
    result: Any = None
    checkpoint: Any = model
    if model is None or isinstance(model, str | os.PathLike):
        name = None if model is None else os.fspath(model)
        checkpoint, chosen = choose_runtime(name, runtime, settings)
        if chosen == ONNX and not needs_pytorch(settings):
            given = {name: value for name, value in settings.items() if name != "device"}
            result = load_graphs(checkpoint, **given)
    if result is None:
        if runtime == ONNX:
            settings["runtime"] = ONNX
        result = load_pipeline(checkpoint, **settings)
    result.show_progress = True
    return result


def bundled_models() -> list[str]:
    """The names of the bundled models."""
    return sorted(file.parent.name for file in FOLDER.glob(f"*/{_PURPOSE}"))


def purpose(name: str) -> str:
    """What the model of this name writes, in a phrase."""
    return (FOLDER / name / _PURPOSE).read_text(encoding="utf-8").strip()
