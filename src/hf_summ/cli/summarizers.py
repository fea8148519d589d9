"""What several commands share: flags, checks, loading of models, and reading of documents."""

import argparse
import os
import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Literal

from hf_summ.checkpoints.decoding import decoding_flags, extraction_flags
from hf_summ.common import flags
from hf_summ.common.flags import flag, flags_in, given_settings, names, values_of
from hf_summ.common.messages import one_line, print_note
from hf_summ.data.columns import DOCUMENT_COLUMNS, PREDICTION_COLUMNS, SUMMARY_COLUMNS
from hf_summ.models.checks import Range, check_supported
from hf_summ.pretrained import DEFAULT_MODEL, PYTORCH, choose_runtime, load_graphs, load_pipeline, purpose
from hf_summ.runtimes.folders import ONNX, find_exported, model_identity

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from hf_summ.runtimes.documents import DocumentSummarizer

# The name of a file that stands for standard input.
STANDARD_INPUT = "-"
# The helps of corpus files and of `--prediction_column`.
CORPUS_FILES = (
    "Corpus files: .jsonl, .json, .csv, .tsv, .parquet or .arrow, also compressed (.gz, .bz2, .xz), or folders or "
    "patterns of them"
)
PREDICTION_COLUMN = (
    f"Column of the predictions in files of rows (default: the first of {', '.join(PREDICTION_COLUMNS)})"
)


@dataclass
class ModelFlags:
    """The checkpoint, the device and the precision."""

    model: str | None = flag(
        "model",
        "Checkpoint folder, or name of a bundled model or of a Hub repository",
        unset=f"{DEFAULT_MODEL}, which is bundled",
    )
    revision: str | None = flag("model", "Branch, tag or commit of the repository", unset="main")
    device: str | None = flag("reporting", "cpu, cuda, cuda:1, mps, ...", unset="the best available")
    dtype: Literal["float32", "bfloat16", "float16"] | None = flag(
        "decoding", "Precision of the model's computation", unset="its config's", unless=("runtime=onnx", "int8")
    )
    source_prefix: str | None = flag(
        "decoding",
        "Prefix of each document, for models that were trained with several prefixes",
        unset="the checkpoint's",
        metavar="TEXT",
    )
    trust_remote_code: bool = flag("model", "Run code that comes with the checkpoint", False, "do not")


@dataclass
class DocumentFlags:
    """The documents' encoding and key phrases."""

    encoding: str = flag("data", "Encoding of the files", "utf-8")
    phrase: list[str] | None = flag(
        "decoding",
        "Key phrase that the summary should be about, and its value (default: 1), for models that read key phrases; "
        "may be repeated",
        unset="phrases that the processor finds",
        action="append",
        metavar="TEXT=VALUE",
    )


@dataclass
class ColumnFlags:
    """The columns of rows, and how their files are read, as in training."""

    text_column: str | None = flag(
        "data",
        "Column of the documents in files of rows; a list has several documents",
        unset=f"the first of {', '.join(DOCUMENT_COLUMNS)}",
    )
    summary_column: str | None = flag(
        "data",
        "Column of the references in files of rows; a list has several references",
        unset=f"references if it has lists, otherwise the first of {', '.join(SUMMARY_COLUMNS)}",
    )
    csv_separator: str | None = flag("data", "Separator of the fields in CSV files", unset="a comma; a tab in .tsv")
    encoding: str | None = flag("data", "Encoding of text files", unset="utf-8")


@dataclass
class RuntimeFlags:
    """The runtime."""

    runtime: Literal["onnx", "pytorch"] | None = flag(
        "decoding",
        "onnx decodes on the CPU with graphs that `hf-summ export` wrote; --model is their folder, or the checkpoint's "
        "folder that contains it",
        unset="onnx for a folder of graphs, and for bundled models that have graphs, if no other flag needs PyTorch",
    )


@dataclass
class Int8Flags:
    """Decoding in 8 bits."""

    int8: bool = flag(
        "decoding",
        "Decode on the CPU with linear layers in 8 bits, about twice as fast",
        False,
        "do not",
        unless=("runtime=onnx",),
    )


@dataclass
class LengthFlags:
    """What to read of documents that are too long for the model."""

    long_documents: Literal["truncate", "extract", "windows"] = flag(
        "decoding",
        "What to read of a document that is too long: its beginning (truncate), its most important sentences "
        "(extract), or summaries of all its parts (windows)",
        "truncate",
    )
    language: str = flag("decoding", "ISO 639 code of the documents' language, for sentence splitting", "en")


# A dataclass with a flag for each setting of `generate()`. Settings of beam search have no effect with a single beam.
_GenerationFlags: Any = decoding_flags("the checkpoint's", needs_beams=("num_beams=1",))


@dataclass
class DecodingFlags(_GenerationFlags):
    """The settings of `generate()`, and the seed of sampling."""

    seed: int | None = flag(
        "decoding",
        "Random seed of sampling",
        unset="0",
        range=Range(0, 2**31 - 1),
        needs=("do_sample", "sample_latent"),
    )


# A dataclass with the flags of the extractive stage. Some need another flag that applies the stage, such as
# --long_documents extract.
ExtractionFlags: Any = extraction_flags("long_documents=extract")
# Flags that several commands share; a command may lack some of them.
_SHARED_FLAGS = flags_in(
    ModelFlags, DocumentFlags, RuntimeFlags, Int8Flags, LengthFlags, ExtractionFlags, DecodingFlags
)


def check_names(names: list[str] | None, default_names: Sequence[str], taken: Collection[str] = ()) -> Sequence[str]:
    """The names of systems, one for each file: the names of --names or, without this flag, the default names.

    Args:
        names: the names of --names; None or empty without this flag.
        default_names: the names to use without the flag, one for each file.
        taken: names that are used otherwise, from which the names of systems must differ.

    Raises:
        ValueError: there are too few or too many names, or two are equal.
    """
    if not names:
        names = list(default_names)
    distinct_names = {*names, *taken}
    if len(names) != len(default_names) or len(distinct_names) != len(names) + len(taken):
        raise ValueError(f"--names {' '.join(names)}: must be {len(default_names)} different names, one for each file")
    return names


def decoding_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of `generate()` that were given, by name."""
    return given_settings(values_of(arguments, _GenerationFlags))


def check_flags(arguments: argparse.Namespace, *declared: "type[DataclassInstance]") -> None:
    """Raise a ValueError for a number out of its range, or for a flag that has no effect or contradicts another.

    Args:
        declared: the dataclasses of flags that only this command has.
    """
    flags.check_flags(arguments, _SHARED_FLAGS | flags_in(*declared))
    most_tokens = arguments.max_new_tokens
    if most_tokens is not None:
        for name in ("min_new_tokens", "min_new_words"):
            value = getattr(arguments, name)
            if value is not None and value > most_tokens:
                raise ValueError(f"--{name} {value}: must be at most {most_tokens}, which is --max_new_tokens")
    if arguments.device is None or arguments.device.startswith("cpu"):
        return
    # Not every command has these two flags.
    if getattr(arguments, "runtime", None) == ONNX:
        raise ValueError("--runtime: needs --device cpu")
    if getattr(arguments, "int8", False):
        raise ValueError("--int8: needs --device cpu")


def find_model(arguments: argparse.Namespace) -> None:
    """Set `model` to the checkpoint to load, and `runtime`, if the command has this flag, to its runtime.

    A bundled model is loaded from its folder. Without --model, it is the default model. Choices that the user did not
    make are printed as notes.
    """
    name = arguments.model or None
    if not hasattr(arguments, "runtime"):
        # Commands without this flag run models by PyTorch.
        arguments.model, _ = choose_runtime(name, PYTORCH, {})
        _print_default_model(name)
        return
    given_runtime = arguments.runtime
    settings = decoding_settings(arguments)
    settings["device"] = arguments.device
    settings["dtype"] = arguments.dtype
    settings["int8"] = getattr(arguments, "int8", None)
    arguments.model, arguments.runtime = choose_runtime(name, given_runtime, settings)
    _print_default_model(name)
    # A user who names a folder of graphs has chosen the runtime, and needs no note.
    names_graphs = arguments.model == name
    if given_runtime is None and arguments.runtime == ONNX and not names_graphs:
        print_note("no --runtime: using onnx, in 8 bits; --runtime pytorch uses 32")


def _print_default_model(name: str | None) -> None:
    """Print a note that the default model is used, unless the user named a model."""
    if name is None:
        print_note(f"no --model: using {DEFAULT_MODEL}, which writes {purpose(DEFAULT_MODEL)}")


def check_output_file(arguments: argparse.Namespace, *endings: str, flag: str = "output", beside: str = "") -> None:
    """Check the output file, if the user named one.

    Args:
        endings: the endings that its name may have; without any, all are allowed.
        flag: the flag that names it.
        beside: the ending of a second output file, which has the same name otherwise; empty if there is none.

    Raises:
        ValueError: the folder does not exist, the name has another ending, or the file is an input.
    """
    name = getattr(arguments, flag)
    if name is None:
        return
    output = Path(name)
    has_other_ending = bool(endings) and output.suffix not in endings
    if output.is_dir() or not output.parent.is_dir() or has_other_ending:
        form = "a file"
        if endings:
            form = f"a {' or '.join(endings)} file"
        raise ValueError(f"--{flag} {output}: must be {form} in an existing folder")
    inputs = _paths_in(arguments, flag)
    if os.path.realpath(output) in inputs:
        raise ValueError(f"--{flag} {output}: would replace the input; give it another name")
    if beside:
        second_output = output.with_suffix(beside)
        if os.path.realpath(second_output) in inputs:
            raise ValueError(f"--{flag} {output}: would replace the input {second_output}; give it another name")


def _paths_in(arguments: argparse.Namespace, output_flag: str) -> set[str]:
    """The absolute paths of a command's inputs, for the check that no output replaces an input.

    It is not known which arguments are paths, so every text among them is taken for a path. This does no harm, unless
    the user gives the same text, such as a phrase, as the name of the output.

    Args:
        output_flag: the flag of the output, which is left out.
    """
    paths = set()
    for name, value in vars(arguments).items():
        if name == output_flag:
            continue
        values = value if isinstance(value, list) else [value]
        paths.update([os.path.realpath(text) for text in values if isinstance(text, str)])
    return paths


def load_summarizer(arguments: argparse.Namespace, **settings: Any) -> "DocumentSummarizer":
    """Load the summarizer of the checkpoint, by exported graphs or by PyTorch, and check that the flags suit the model.

    Args:
        settings: further arguments of `pipeline`. Flags of the extractive stage that are given take precedence.

    Raises:
        ValueError: the checkpoint cannot be loaded, or the model does not support a flag.
    """
    values = vars(arguments)
    for name in names(ExtractionFlags):
        if values.get(name) is not None:
            settings[name] = values[name]
    if values.get("runtime") == ONNX:
        summarizer = _load_graphs(arguments, settings)
    else:
        summarizer = _load_pipeline(arguments, settings)
    check_supported(values, summarizer.model)
    generation_settings = {name: values.get(name) for name in names(_GenerationFlags)}
    ignored = summarizer.setting_without_search(generation_settings)
    if ignored is not None:
        print_note(
            f"--{ignored}: has no effect, as the model chooses whole sentences; give --no-whole_sentences for a search"
        )
    model_inputs = getattr(summarizer.processor, "model_input_names", ())
    if values.get("phrase") is not None and "phrase_starts" not in model_inputs:
        raise ValueError(f"--phrase: {arguments.model} does not read key phrases, but a highlight_transformer does")
    return summarizer


def _load_graphs(arguments: argparse.Namespace, settings: dict[str, Any]) -> "DocumentSummarizer":
    """The summarizer of exported graphs.

    Its search runs without PyTorch or, if a setting of decoding or the tokenizer needs PyTorch and this is installed,
    by PyTorch.

    Args:
        settings: arguments of `pipeline` that override the flags, with the flags of the extractive stage.

    Raises:
        ValueError: the graphs cannot be loaded, or PyTorch is needed, but not installed.
    """
    # The decoding settings become defaults of the summarizer. They are given here and not only when it is called, so
    # that `load_graphs` returns None if one of them needs PyTorch.
    graph_settings = settings | decoding_settings(arguments)
    # Graphs run on the CPU.
    graph_settings.pop("device", None)
    with loading(arguments.model):
        summarizer = load_graphs(
            arguments.model,
            revision=arguments.revision,
            source_prefix=arguments.source_prefix,
            seed=arguments.seed or 0,
            **graph_settings,
        )
    if summarizer is None:
        # A setting or the tokenizer needs PyTorch.
        return _load_pipeline(arguments, settings)
    return summarizer


def _load_pipeline(arguments: argparse.Namespace, settings: Mapping[str, Any]) -> "DocumentSummarizer":
    """The summarizer of a checkpoint by PyTorch, or of graphs of which only the search runs by PyTorch.

    Args:
        settings: arguments of `pipeline` that override the flags, with the flags of the extractive stage.

    Raises:
        ValueError: the checkpoint cannot be loaded.
    """
    import torch

    from hf_summ.models.quantization_int8 import Int8Config

    values = vars(arguments)
    options = {name: values[name] for name in ("revision", "device", "trust_remote_code")}
    # The dtype is for the model alone: transformers could not save a tokenizer that was loaded with a dtype.
    options["model_kwargs"] = {"dtype": arguments.dtype or "auto"}
    options.update(settings)
    if values.get("source_prefix") is not None:
        options["source_prefix"] = arguments.source_prefix
    if values.get("runtime") == ONNX:
        options["device"] = "cpu"
        options["runtime"] = ONNX
    if values.get("int8"):
        options["device"] = "cpu"
        options["model_kwargs"] = {"quantization_config": Int8Config()}
    with loading(arguments.model):
        summarizer = load_pipeline(arguments.model, **options)
    # Building a model draws random numbers, so the seed is set after it.
    torch.manual_seed(values.get("seed") or 0)
    return summarizer


def checkpoint_identity(arguments: argparse.Namespace) -> dict[str, object]:
    """What identifies the weights that a command uses, of a checkpoint or of exported graphs; see `model_identity`.

    Args:
        arguments: the arguments of a command that has `--runtime`, after `find_model` has changed them.

    Raises:
        ValueError: the checkpoint cannot be read.
    """
    with loading(arguments.model):
        checkpoint = arguments.model
        if arguments.runtime == ONNX:
            checkpoint = str(find_exported(checkpoint, revision=arguments.revision))
        return model_identity(checkpoint, arguments.revision)


@contextmanager
def loading(model: str, flag: str = "model") -> Generator[None]:
    """A context in which any error is replaced by a ValueError that names the checkpoint.

    Args:
        model: the name of the checkpoint.
        flag: the flag that gives this name.
    """
    try:
        yield
    except Exception as error:
        # For broken files, transformers and tokenizers raise errors of any type.
        reason = str(error).strip() or type(error).__name__
        if isinstance(error, UnpicklingError):
            # The message of torch advises the user to run the code in the file.
            reason = "it contains more than weights, or is damaged"
        if "Traceback" in reason:
            # The last line of a traceback has the message.
            reason = reason.splitlines()[-1]
        raise ValueError(f"--{flag} {model}: cannot be loaded: {one_line(reason)}") from error


def read_phrases(items: list[str] | None) -> dict[str, float] | None:
    """Key phrases with their values, or None if no --phrase was given.

    Args:
        items: the values of --phrase: `TEXT=VALUE`, or `TEXT` for a value of 1.

    Raises:
        ValueError: a value is not a number.
    """
    if items is None:
        return None
    phrases = {}
    for item in items:
        text, value = item, "1"
        if "=" in item:
            text, _, value = item.rpartition("=")
        try:
            phrases[text] = float(value)
        except ValueError:
            raise ValueError(f"--phrase {item!r}: must be TEXT=VALUE with a number") from None
    return phrases


def check_is_text(file: str, remedy: str) -> None:
    """Raise a ValueError for a file of rows; `remedy` says in the message what to do instead."""
    # The module is imported here, as its import is slow, and not every command reads files.
    from hf_summ.data.files import is_row_file

    if is_row_file(file):
        raise ValueError(f"{file} is a file of rows: {remedy}")


def read_document(file: str, encoding: str) -> str:
    """The text of a file or of standard input.

    Raises:
        ValueError: the text is in another encoding, or the encoding is unknown.
        OSError: the file cannot be read.
    """
    if file == STANDARD_INPUT:
        if sys.stdin.isatty():
            print_note("waiting for a text: type or paste it, and end it with Ctrl-D on a new line; --help shows more")
        content = sys.stdin.buffer.read()
    else:
        content = Path(file).read_bytes()
    try:
        # A byte-order mark at the start is not part of the text.
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name_of(file)} is not text in {encoding} (byte {error.start}): name its encoding with --encoding"
        ) from error
    except LookupError as error:
        raise ValueError(f"--encoding {encoding}: unknown; name one such as utf-8 or latin-1") from error


def name_of(file: str) -> str:
    """The name of a file, or of standard input, in messages."""
    return "standard input" if file == STANDARD_INPUT else file


def write_summaries(text: str, output: str | None) -> None:
    """Write a text to the file `output`, or to standard output if it is None."""
    if output is None:
        sys.stdout.write(text)
        return
    from hf_summ.common.files import write_atomically

    write_atomically(Path(output), text)
