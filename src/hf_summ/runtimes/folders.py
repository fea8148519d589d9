"""Folders with the ONNX graphs of a model: export, find and load them.

It also identifies checkpoints and adapters, and replaces the error for an adapter whose base is missing.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_summ.common.files import moved_into_place, shared_name, write_atomically
from hf_summ.common.hashes import content_hash
from hf_summ.common.messages import one_line
from hf_summ.runtimes.any_model import source_positions, target_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

# file in an exported folder that names the runtime and the version of the folder's layout
RUNTIME_FILE = "runtime.json"
# file with all weights of a checkpoint, which graphs in a folder inside the checkpoint can read
_WEIGHTS_FILE = "model.safetensors"
# entry of `RUNTIME_FILE`: whether graphs read the file of weights in the folder above theirs
_SHARES_WEIGHTS = "shares_weights"
# why an adapted model has no graphs, as the rest of a sentence about it
ADAPTER_PROBLEM = "has an adapter, which graphs do not contain: merge both into one checkpoint"
# file of an adapter, which names the model that it adapts
_ADAPTER_FILE = "adapter_config.json"
# endings of the files of a checkpoint that determine its summaries
_ENDINGS = (".safetensors", ".json", ".txt", ".model", ".onnx", ".data", ".py", ".bin")
# name of the runtime, and of the folder of its graphs inside a checkpoint
ONNX = "onnx"
_LAYOUT = 3
_MODEL_TYPES = (
    # architectures of this package
    "gdlf",
    "drgd",
    "copy_transformer",
    "highlight_transformer",
    "pointer_generator",
    "sagcopy",
    # architectures of transformers
    "bart",
    "mbart",
    "pegasus",
    "marian",
    "blenderbot",
    "blenderbot-small",
    "m2m_100",
    "plbart",
    "t5",
    "mt5",
    "umt5",
    "longt5",
)

# possible model types of CopyTransformer's `bert_config`; others may need attention that `onnx_graphs` does not export
_ENCODERS = (
    "bert",
    "albert",
    "camembert",
    "convbert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "megatron-bert",
    "modernbert",
    "mpnet",
    "rembert",
    "roberta",
    "roformer",
    "xlm-roberta",
)
# the contents of a JSON file, or a part of it
_Json = dict[str, Any]


def export(
    model: "PreTrainedModel", processor: "ProcessorMixin | PreTrainedTokenizerBase", output: Path, int8: bool
) -> None:
    """Export a loaded checkpoint to a folder for ONNX Runtime, with config and processor.

    Graphs in a folder inside the checkpoint read weights from the checkpoint's file. Other graphs are complete.

    Args:
        model: the model, in float32.
        processor: the checkpoint's processor or tokenizer.
        output: the folder to write, which must be new or empty.
        int8: whether the matrices of the graphs have 8 bits.

    Raises:
        ValueError: the model cannot be exported.
        ImportError: a library of the extra is not installed.
    """
    problem = _problem(model)
    if problem is not None:
        raise ValueError(f"{model.name_or_path} {problem}")
    check_libraries("onnx", "onnxscript")
    from transformers.utils import cached_file

    hub_settings = getattr(model, "hub_settings", {})
    folder = Path(cached_file(model.name_or_path, "config.json", **hub_settings)).parent
    record = {
        "runtime": ONNX,
        "layout": _LAYOUT,
        "int8": int8,
        "weights": _weights_fingerprint(folder),
        # the configuration has the size of a table, but RoBERTa's positions do not use the table's first rows
        "positions": {"encoder": source_positions(model), "decoder": target_positions(model)},
    }
    from hf_summ.runtimes.onnx_graphs import write_graphs

    shared_weights_file = None
    if output.resolve().parent == folder.resolve() and list(folder.glob("*.safetensors")) == [folder / _WEIGHTS_FILE]:
        shared_weights_file = folder / _WEIGHTS_FILE
    with moved_into_place(output) as temporary:
        temporary.mkdir()
        if write_graphs(model, temporary, int8, shared_weights_file):
            record[_SHARES_WEIGHTS] = True
        for settings in (model.config, model.generation_config, processor):
            settings.save_pretrained(temporary)
        write_atomically(temporary / RUNTIME_FILE, f"{json.dumps(record, indent=2)}\n")


def load(name: str, **hub_settings: Any) -> "PreTrainedModel":
    """Load the model of an exported folder.

    Args:
        name, hub_settings: as for `find_exported`.

    Raises:
        ValueError: as `find_exported`.
        ImportError: the extra is not installed.
    """
    exported = find_exported(name, **hub_settings)
    check_libraries("onnxruntime")
    from hf_summ.runtimes.onnx_model import load_graphs

    return load_graphs(exported)


def load_exported(name: str | Path, **hub_settings: Any) -> "PreTrainedModel | None":
    """Load the model of an exported folder or repository; None if the name is that of another folder or repository.

    Args:
        name: the folder, or the name of the repository on the Hub.
        hub_settings: arguments of `from_pretrained` for files on the Hub.
    """
    from huggingface_hub import snapshot_download
    from transformers.utils import cached_file

    # None if there is no such file or no such repository: loading the weights then raises the error
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


def find_exported(name: str, subfolder: str = "", **hub_settings: Any) -> Path:
    """The exported folder of this name, or the exported folder in the checkpoint of this name.

    Args:
        name: a folder, or a repository on the Hub.
        subfolder: the checkpoint's folder inside it; empty if it is the checkpoint itself.
        hub_settings: further arguments of `from_pretrained` for files on the Hub, such as `revision`.

    Raises:
        ValueError: there are no graphs, another version of this package wrote them, or the checkpoint has other weights
            than they have.
        FileNotFoundError: graphs read a file of weights that is missing.
    """
    folder = Path(name)
    if not folder.exists():
        folder = _downloaded(name, subfolder, **hub_settings)
    folder /= subfolder
    exported = _folder_of_graphs(folder)
    if exported is None:
        raise ValueError(
            f"{name} has no graphs for ONNX Runtime: run `hf-summ export {name} --to {ONNX} --output {folder / ONNX}`"
        )
    record = read_json(exported / RUNTIME_FILE)
    if record.get("layout") != _LAYOUT:
        raise ValueError(f"{exported} was written by another version of hf_summ: export it again")
    weights_folder = folder
    if weights_file(exported) is not None:
        weights_folder = exported.parent
    # a folder of complete graphs has no weights to compare
    fingerprint = _weights_fingerprint(weights_folder)
    if fingerprint and fingerprint != record["weights"]:
        raise ValueError(f"{exported} was exported from other weights than those of {name}: export it again")
    return exported


def weights_file(exported: Path) -> Path | None:
    """The file of weights that graphs read; None if they contain all of their constants.

    Args:
        exported: a folder that `find_exported` returns.

    Raises:
        FileNotFoundError: the file is missing.
    """
    if not _shares_weights(exported):
        return None
    file = exported.parent / _WEIGHTS_FILE
    if not file.is_file():
        raise FileNotFoundError(
            f"the graphs in {exported} read weights from {file}, which is missing: keep both together, or export the "
            "checkpoint to a folder outside it"
        )
    return file


def _shares_weights(exported: Path) -> bool:
    """Whether the graphs in a folder read the file of weights in the folder above."""
    return read_json(exported / RUNTIME_FILE).get(_SHARES_WEIGHTS, False)


def _folder_of_graphs(folder: Path) -> Path | None:
    """This folder if it is an exported one, otherwise the exported folder inside it; None if neither is one."""
    for path in (folder, folder / ONNX):
        if (path / RUNTIME_FILE).is_file():
            return path
    return None


def read_json(file: Path) -> _Json:
    """The contents of a JSON file that has an object."""
    return json.loads(file.read_text(encoding="utf-8"))


def recorded_positions(exported: Path) -> dict[str, int | None] | None:
    """The numbers of positions of `encoder` and `decoder`; None for graphs of versions that did not record them.

    Args:
        exported: a folder that `find_exported` returns.

    Returns:
        The number of each side, which is None if positions are unlimited.
    """
    return read_json(exported / RUNTIME_FILE).get("positions")


def _downloaded(name: str, subfolder: str, **hub_settings: Any) -> Path:
    """Download the graphs of a repository, and its weights only if graphs read them.

    Args:
        name, subfolder, hub_settings: as for `find_exported`.

    Returns:
        The folder of the repository's files; if the repository is not found or not within reach, the name as a path.
    """
    from huggingface_hub import snapshot_download

    weights_formats = ["*.safetensors", "*.bin", "*.pt", "*.h5", "*.msgpack"]
    try:
        folder = Path(snapshot_download(name, ignore_patterns=weights_formats, **hub_settings))
        exported = _folder_of_graphs(folder / subfolder)
        if exported is not None and _shares_weights(exported):
            # the folder's name is the commit, so that both downloads are of the same one
            hub_settings["revision"] = folder.name
            weights_name = (Path(subfolder) / _WEIGHTS_FILE).as_posix()
            snapshot_download(name, allow_patterns=[weights_name], **hub_settings)
    except (OSError, ValueError):
        return Path(name)
    return folder


def _problem(model: "PreTrainedModel") -> str | None:
    """The reason why a model cannot be exported, as the rest of a sentence about it; None if it can be exported."""
    config = model.config
    if config.model_type not in _MODEL_TYPES:
        return f"is a {config.model_type}, which cannot be exported: name one of {', '.join(_MODEL_TYPES)}"
    if hasattr(config, "quantization_config"):
        return "has 8 bits already: export the checkpoint in 32 bits, with --int8"
    if hasattr(model, "peft_config"):
        return ADAPTER_PROBLEM
    if getattr(model, "masked_lm", None) is not None:
        return "contains a masked language model, which has no graphs"
    has_bert = getattr(config, "encoder_type", "transformer") != "transformer"
    if has_bert and config.bert_config.model_type not in _ENCODERS:
        return f"contains a {config.bert_config.model_type}, which has no graphs: use one of {', '.join(_ENCODERS)}"
    if getattr(config, "convolutional_attention", "none") != "none":
        return "has convolutional attention, which has no graphs"
    return None


def _weights_fingerprint(folder: Path) -> str:
    """A fingerprint of the weights in a folder; empty if there are none."""
    hashes = [content_hash(file) for file in sorted(folder.glob("*.safetensors"))]
    return "-".join(hashes)


def check_libraries(*libraries: str) -> None:
    """Raise an ImportError, which names the extra `onnx`, if one of these libraries is not installed."""
    for library in libraries:
        if find_spec(library) is None:
            raise ImportError(f"`runtime=\"{ONNX}\"` needs {library}: pip install 'hf-summ[onnx]'")


def model_identity(model: str, revision: str | None) -> _Json:
    """The identity of a checkpoint or an adapter: two with equal identities write the same summaries.

    Args:
        model: a folder, or a repository on the Hub.
        revision: the repository's branch, tag or commit; None for its main branch.

    Returns:
        `model`, the name, and `content`: for a repository its commit, for a folder a hash of each file. The identity of
        an adapter's folder also has `base`, the identity of the model that it adapts.
    """
    folder = Path(model)
    if not folder.is_dir():
        return _hub_identity(model, revision)
    content = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _ENDINGS and path.is_file():
            content[path.name] = content_hash(path)
    # the folder's path is not part of the identity, as a folder may be moved
    identity = {"model": shared_name(model), "content": content}
    adapter_file = folder / _ADAPTER_FILE
    if adapter_file.is_file() and not (folder / "config.json").is_file():
        identity |= _base_identity(adapter_file)
    return identity


def _hub_identity(name: str, revision: str | None) -> _Json:
    """The identity of a checkpoint or an adapter on the Hub."""
    from transformers.utils import cached_file
    from transformers.utils.hub import extract_commit_hash

    # None if there is no such file
    config_file = cached_file(name, "config.json", revision=revision, _raise_exceptions_for_missing_entries=False)
    if config_file is not None:
        return {"model": name, "content": extract_commit_hash(config_file, None)}
    adapter_file = cached_file(name, _ADAPTER_FILE, revision=revision)
    identity = {"model": name, "content": extract_commit_hash(adapter_file, None)}
    return identity | _base_identity(Path(adapter_file))


def _base_identity(adapter_file: Path) -> _Json:
    """The identity of the model that an adapter adapts, as `base`; empty if the adapter names no model."""
    adapter = read_json(adapter_file)
    base = adapter.get("base_model_name_or_path")
    if not base:
        return {}
    with naming_base(str(adapter_file.parent)):
        return {"base": model_identity(base, adapter.get("revision"))}


@contextmanager
def naming_base(name: str | None) -> Generator[None]:
    """A context that replaces the error for an adapter's base that is neither a folder nor on the Hub.

    A ValueError that names the adapter, its base and the file to correct takes the place of the OSError, which may name
    none of them. Other errors pass, and so do those for a checkpoint that is not an adapter's folder.

    Args:
        name: the name of a checkpoint, if it has one.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        folder = Path(name or "")
        file = folder / _ADAPTER_FILE
        # the recipe has already made a ValueError of the OSError
        is_missing = isinstance(error, OSError) or isinstance(error.__cause__, OSError)
        if name is None or not is_missing or not file.is_file() or (folder / "config.json").is_file():
            raise
        base = read_json(file).get("base_model_name_or_path")
        if not base or Path(base).exists():
            raise
        raise ValueError(
            f"{name}: its {_ADAPTER_FILE} names the base {base}, which is not a folder and cannot be loaded from the "
            f"Hub; if the base has moved, correct its path there ({one_line(error)})"
        ) from error
