"""Writing and loading folders that contain a model's graphs instead of its weights."""

import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_summ.common.files import content_hash, moved_into_place, shared_name, write_atomically
from hf_summ.runtimes.any_model import source_positions, target_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# file in an exported folder that names the runtime and the layout
RUNTIME_FILE = "runtime.json"
# file of an adapter, which names the model that it adapts
_ADAPTER_FILE = "adapter_config.json"
# files of a checkpoint that determine its summaries
_ENDINGS = (".safetensors", ".json", ".txt", ".model", ".onnx", ".data", ".py", ".bin")
# name of the runtime, and of its folder inside a checkpoint
ONNX = "onnx"
_LAYOUT = 3
_MODEL_TYPES = (
    *("gdlf", "drgd", "copy_transformer", "highlight_transformer", "pointer_generator", "sagcopy"),
    # of transformers
    *("bart", "mbart", "pegasus", "marian", "blenderbot", "blenderbot-small", "m2m_100", "plbart"),
    *("t5", "mt5", "umt5", "longt5"),
)

# of CopyTransformer's `bert_config`; others may need attention that `onnx_graphs` does not export
_ENCODERS = (
    *("bert", "albert", "camembert", "convbert", "deberta", "deberta-v2", "distilbert", "electra", "ernie"),
    *("megatron-bert", "modernbert", "mpnet", "rembert", "roberta", "roformer", "xlm-roberta"),
)


def export(model: "PreTrainedModel", processor: Any, output: Path, int8: bool) -> None:
    """Export a loaded checkpoint to a folder for ONNX Runtime, with config and processor.

    Args:
        model: the model, in float32.
        processor: the checkpoint's processor or tokenizer.
        output: folder, new or empty.
        int8: whether matrices have 8 bits.
    """
    problem = _problem(model)
    if problem is not None:
        raise ValueError(f"{model.name_or_path} {problem}")
    check_libraries("onnx", "onnxscript")
    from transformers.utils import cached_file

    folder = Path(cached_file(model.name_or_path, "config.json", **getattr(model, "hub_settings", {}))).parent
    record = {"runtime": ONNX, "layout": _LAYOUT, "int8": int8, "weights": _weights(folder)}
    # the configuration tells the size of a table, of which RoBERTa's positions do not use the first rows
    record["positions"] = {"encoder": source_positions(model), "decoder": target_positions(model)}
    from hf_summ.runtimes.onnx_graphs import write_graphs

    with moved_into_place(output) as temporary:
        temporary.mkdir()
        write_graphs(model, temporary, int8)
        for settings in (model.config, model.generation_config, processor):
            settings.save_pretrained(temporary)
        write_atomically(temporary / RUNTIME_FILE, f"{json.dumps(record, indent=2)}\n")


def load(name: str) -> "PreTrainedModel":
    """Load the model of an exported folder.

    Raises:
        ValueError: as `find`.
        ImportError: the extra is not installed.
    """
    exported = find(name)
    check_libraries("onnxruntime")
    from hf_summ.runtimes.onnx_model import load_graphs

    return load_graphs(exported)


def load_exported(name: str | Path, **hub_settings: Any) -> "PreTrainedModel | None":
    """Load an exported folder or repository; None for any other.

    Args:
        hub_settings: arguments of `from_pretrained` for files on the Hub.
    """
    from huggingface_hub import snapshot_download
    from transformers.utils import cached_file

    # None if there is no such file, or no such repository, of which loading the weights raises the error
    file = cached_file(
        name,
        RUNTIME_FILE,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_connection_errors=False,
        **hub_settings,
    )
    if file is None:
        return None
    if not Path(name).is_dir():
        hub_settings.pop("subfolder", None)
        snapshot_download(str(name), **hub_settings)
    return load(str(Path(file).parent))


def find(name: str) -> Path:
    """An exported folder by its own name, or by that of the checkpoint that contains it; both may be on the Hub."""
    folder = Path(name) if Path(name).exists() else _downloaded(name)
    exported = next((path for path in (folder, folder / ONNX) if (path / RUNTIME_FILE).is_file()), None)
    if exported is None:
        raise ValueError(
            f"{name} has no graphs for ONNX Runtime: run `hf-summ export {name} --to {ONNX} --output {folder / ONNX}`"
        )
    record = json.loads((exported / RUNTIME_FILE).read_text(encoding="utf-8"))
    if record.get("layout") != _LAYOUT:
        raise ValueError(f"{exported} was written by another version of hf_summ: export it again")
    if _weights(folder) not in ("", record["weights"]):
        raise ValueError(f"{exported} was exported from other weights than those of {name}: export it again")
    return exported


def recorded_positions(exported: Path) -> dict[str, int | None] | None:
    """The numbers of positions of encoder and decoder; None for graphs that were exported before these were recorded.

    Args:
        exported: a folder that `find` returns.
    """
    record = json.loads((exported / RUNTIME_FILE).read_text(encoding="utf-8"))
    return record.get("positions")


def _downloaded(name: str) -> Path:
    """The graphs of a repository, or the path of this name if there is no such repository within reach."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=["*.safetensors", "*.bin", "*.pt", "*.h5", "*.msgpack"]))
    except (OSError, ValueError):
        return Path(name)


def _problem(model: "PreTrainedModel") -> str | None:
    """Why a model cannot be exported, or None."""
    config = model.config
    if config.model_type not in _MODEL_TYPES:
        return f"is a {config.model_type}, which cannot be exported: name one of {', '.join(_MODEL_TYPES)}"
    if hasattr(config, "quantization_config"):
        return "has 8 bits already: export the checkpoint in 32 bits, with --int8"
    if hasattr(model, "peft_config"):
        return "has an adapter, which graphs do not contain: merge both into one checkpoint"
    if getattr(model, "masked_lm", None) is not None:
        return "contains a masked language model, which has no graphs"
    has_bert = getattr(config, "encoder_type", "transformer") != "transformer"
    if has_bert and config.bert_config.model_type not in _ENCODERS:
        return f"contains a {config.bert_config.model_type}, which has no graphs: use one of {', '.join(_ENCODERS)}"
    if getattr(config, "convolutional_attention", "none") != "none":
        return "has convolutional attention, which has no graphs"
    return None


def _weights(folder: Path) -> str:
    """A fingerprint of the weights in a folder; empty if there are none."""
    return "-".join(content_hash(file) for file in sorted(folder.glob("*.safetensors")))


def check_libraries(*libraries: str) -> None:
    """Raise an ImportError that names the extra if one of its libraries is not installed."""
    for library in libraries:
        if find_spec(library) is None:
            raise ImportError(f"`runtime=\"{ONNX}\"` needs {library}: pip install 'hf-summ[onnx]'")


def model_identity(model: str, revision: str | None) -> dict[str, Any]:
    """A checkpoint's identity: its name, and its commit or, for a folder, hashes of its files.

    That of an adapter's folder has also the identity of its `base`.
    """
    folder = Path(model)
    if not folder.is_dir():
        return _hub_identity(model, revision)
    files = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS and path.is_file())
    # the folder's path is not part of it, as a folder may be moved
    identity: dict[str, Any] = {"model": shared_name(model)}
    identity["content"] = {path.name: content_hash(path) for path in files}
    if (folder / _ADAPTER_FILE).is_file() and not (folder / "config.json").is_file():
        identity |= _base_identity(folder / _ADAPTER_FILE)
    return identity


def _hub_identity(name: str, revision: str | None) -> dict[str, Any]:
    """The identity of a checkpoint or an adapter on the Hub."""
    from transformers.utils import cached_file
    from transformers.utils.hub import extract_commit_hash

    find_file = partial(cached_file, name, revision=revision)
    config = find_file("config.json", _raise_exceptions_for_missing_entries=False)
    file = config or find_file(_ADAPTER_FILE)
    identity: dict[str, Any] = {"model": name, "content": extract_commit_hash(file, None)}
    if config is None:
        identity |= _base_identity(Path(file))
    return identity


def _base_identity(adapter_file: Path) -> dict[str, Any]:
    """The identity of an adapter's base as `base`; nothing if the adapter names none."""
    adapter = json.loads(adapter_file.read_text(encoding="utf-8"))
    base = adapter.get("base_model_name_or_path")
    return {"base": model_identity(base, adapter.get("revision"))} if base else {}
