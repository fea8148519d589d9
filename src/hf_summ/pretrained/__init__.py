"""The bundled models, and the loading of any model as a summarizer.

A bundled model is a folder beside this file. It has the checkpoint's files, a phrase in `purpose.txt` that says what
the model writes and, in the folder `onnx`, graphs that decode without PyTorch.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_summ.common.messages import check_choice
from hf_summ.common.processes import threads_for
from hf_summ.runtimes.folders import ONNX, RUNTIME_FILE, naming_base
from hf_summ.runtimes.settings import PyTorchNeeded, needs_pytorch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from hf_summ.runtimes.onnx_summarizer import OnnxSummarizer
    from hf_summ.runtimes.pipeline import SummarizationPipeline

# The folder of the bundled models, and the one that is used if a user names no model.
FOLDER = Path(__file__).parent
DEFAULT_MODEL = "arxiv-tldr"
# The value of `runtime` with which PyTorch runs models; with `ONNX`, ONNX Runtime runs exported graphs.
PYTORCH = "pytorch"
_PURPOSE = "purpose.txt"


def bundled_model(name: str = DEFAULT_MODEL) -> Path:
    """The folder of a bundled model, for example for `pipeline("summarization", model=bundled_model())`.

    Args:
        name: one of `bundled_models`.

    Raises:
        ValueError: there is no such model.
    """
    check_choice("`name`", name, bundled_models())
    return FOLDER / name


def graphs_of(name: str) -> Path | None:
    """The folder of a bundled model's graphs; None if the model has no graphs, or onnxruntime is not installed."""
    folder = FOLDER / name / "onnx"
    if folder.is_dir() and find_spec("onnxruntime") is not None:
        return folder
    return None


def model_folder(name: str) -> str:
    """The folder of a bundled model by its name; the name of a folder or of a Hub repository is returned unchanged."""
    if is_bundled(name):
        return str(bundled_model(name))
    return name


def is_bundled(name: str) -> bool:
    """Whether a name is that of a bundled model, and not of a folder in the working directory."""
    return name in bundled_models() and not Path(name).is_dir()


def choose_runtime(name: str | None, runtime: str | None, settings: Mapping[str, object]) -> tuple[str, str | None]:
    """Choose the checkpoint to load and its runtime.

    Graphs are chosen if their folder is named. For a bundled model, they are also chosen if it has graphs and neither
    `runtime` nor a setting needs PyTorch.

    Args:
        name: a folder, or the name of a bundled model or of a Hub repository; None means the default model.
        runtime: the runtime that the user chose, or None.
        settings: the user's settings of the pipeline and of `generate()`.

    Returns:
        The folder or the name of the checkpoint, or the folder of its graphs. Then the runtime: `ONNX` for graphs,
        otherwise `runtime`; None stands for PyTorch.
    """
    if name is None:
        bundled_name = DEFAULT_MODEL
    elif is_bundled(name):
        bundled_name = name
    else:
        is_exported = (Path(name) / RUNTIME_FILE).is_file()
        if runtime is None and is_exported:
            return name, ONNX
        return name, runtime
    graphs = graphs_of(bundled_name)
    if graphs is None or runtime == PYTORCH or needs_pytorch(settings):
        return str(bundled_model(bundled_name)), runtime
    return str(graphs), ONNX


def load_graphs(checkpoint: str, **settings) -> "OnnxSummarizer | None":
    """The summarizer of a checkpoint's graphs; None if PyTorch is installed and a setting or the tokenizer needs it."""
    from hf_summ.runtimes.onnx_summarizer import OnnxSummarizer

    try:
        return OnnxSummarizer(checkpoint, **settings)
    except PyTorchNeeded:
        if find_spec("torch") is None:
            raise
    return None


def load_pipeline(model: "str | PreTrainedModel", **settings) -> "SummarizationPipeline":
    """The pipeline of a model. PyTorch gets a thread for each idle processor, or as many as OMP_NUM_THREADS says."""
    import torch
    from transformers import pipeline

    threads = threads_for(1, only_idle=True)
    if threads is not None:
        torch.set_num_threads(threads)
    # The signature in transformers lists its tasks, of which this is none any more.
    untyped_pipeline: Any = pipeline
    with naming_base(model if isinstance(model, str) else None):
        return untyped_pipeline("summarization", model=model, **settings)


def summarizer(
    model: "str | os.PathLike | PreTrainedModel | None" = None, *, runtime: str | None = None, **settings
) -> "SummarizationPipeline | OnnxSummarizer":
    """A model's summarizer, as `hf-summ summarize` loads it.

    If the model has graphs and the settings allow them, it is an `OnnxSummarizer`, which decodes without PyTorch and
    transformers; the graphs of bundled models are in 8 bits. Otherwise it is `pipeline("summarization")`. Both use only
    idle processors, or OMP_NUM_THREADS threads, and show their progress over several texts, unless they are called with
    `show_progress=False`.

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
    result: OnnxSummarizer | SummarizationPipeline | None = None
    if model is None or isinstance(model, str | os.PathLike):
        name = None if model is None else os.fspath(model)
        model, chosen_runtime = choose_runtime(name, runtime, settings)
        if chosen_runtime == ONNX and not needs_pytorch(settings):
            # Graphs have no setting of the device, as they run on the CPU.
            graph_settings = dict(settings)
            graph_settings.pop("device", None)
            result = load_graphs(model, **graph_settings)
    if result is None:
        if runtime == ONNX:
            settings["runtime"] = ONNX
        result = load_pipeline(model, **settings)
    result.show_progress = True
    return result


def bundled_models() -> list[str]:
    """The names of the bundled models."""
    return sorted(file.parent.name for file in FOLDER.glob(f"*/{_PURPOSE}"))


def purpose(name: str) -> str:
    """What the model of this name writes, in a phrase."""
    return (FOLDER / name / _PURPOSE).read_text(encoding="utf-8").strip()
