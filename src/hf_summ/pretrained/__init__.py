"""The bundled models: folders in this one, each with a phrase in `purpose.txt` that says what the model writes."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_summ.common.messages import check_choice

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from hf_summ.runtimes.pipeline import SummarizationPipeline

DEFAULT_MODEL = "arxiv-tldr"
FOLDER = Path(__file__).parent

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


def summarizer(model: "str | os.PathLike | PreTrainedModel | None" = None, **settings: Any) -> "SummarizationPipeline":
    """`pipeline("summarization")` with a type, which transformers does not declare for this task.

    Args:
        model: a folder, the name of a bundled model or of a Hub repository, or a model; by default the bundled model
            that writes what a paper does in a sentence.
        settings: those of `transformers.pipeline` and of `SummarizationPipeline`.

    Raises:
        ValueError: the model cannot be used.
        OSError: there is no such model.
    """
    from transformers import pipeline

    if model is None or isinstance(model, str | os.PathLike):
        model = model_folder(DEFAULT_MODEL if model is None else os.fspath(model))
    # transformers declares a fixed list of tasks
    build: Any = pipeline
    return build("summarization", model=model, **settings)


def bundled_models() -> list[str]:
    """The names of the bundled models."""
    return sorted(file.parent.name for file in FOLDER.glob(f"*/{_PURPOSE}"))


def purpose(name: str) -> str:
    """What the model of this name writes, in a phrase."""
    return (FOLDER / name / _PURPOSE).read_text(encoding="utf-8").strip()
