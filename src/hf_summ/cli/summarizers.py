"""Shared parts of the commands that summarize: flags, loading of models, and reading of documents."""

import argparse
import os
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

from hf_summ.checkpoints.decoding import decoding_flags, extraction_flags
from hf_summ.common import flags
from hf_summ.common.flags import flag, flags_in, names, values_of
from hf_summ.common.messages import one_line, print_note
from hf_summ.data.columns import DOCUMENT_COLUMNS, PREDICTION_COLUMNS, SUMMARY_COLUMNS
from hf_summ.models.checks import Range, check_own_settings
from hf_summ.pretrained import DEFAULT_MODEL, PYTORCH, choose_runtime, load_graphs, load_pipeline, purpose
from hf_summ.runtimes.folders import ONNX, find, model_identity

STANDARD_INPUT = "-"
# the helps of corpus files and `--prediction_column`
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


_Settings: Any = decoding_flags("the checkpoint's", needs_beams=("num_beams=1",))


@dataclass
class DecodingFlags(_Settings):
    """The settings of `generate()`, and the seed of sampling."""

    seed: int | None = flag(
        "decoding",
        "Random seed of sampling",
        unset="0",
        range=Range(0, 2**31 - 1),
        needs=("do_sample", "sample_latent"),
    )


ExtractionFlags: Any = extraction_flags("long_documents=extract")
_FLAGS = flags_in(ModelFlags, DocumentFlags, RuntimeFlags, Int8Flags, LengthFlags, ExtractionFlags, DecodingFlags)


def check_names(given: list[str] | None, usual: Sequence[str], taken: Collection[str] = ()) -> Sequence[str]:
    """The names of systems, one for each file, which differ from each other and from those taken.

    Raises:
        ValueError: they do not.
    """
    names = given or usual
    if len(names) != len(usual) or len({*names, *taken}) != len(names) + len(taken):
        raise ValueError(f"--names {' '.join(names)}: must be {len(usual)} different names, one for each file")
    return names


def decoding_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of `generate()` that were given, by name."""
    return {name: value for name, value in values_of(arguments, _Settings).items() if value is not None}


def check_flags(arguments: argparse.Namespace, *declared: Any) -> None:
    """Check numbers and conditions.

    Args:
        declared: the dataclasses of flags that only this command has.
    """
    flags.check_flags(arguments, _FLAGS | flags_in(*declared))
    most = arguments.max_new_tokens
    for name in ("min_new_tokens", "min_new_words"):
        value = getattr(arguments, name)
        if None not in (value, most) and value > most:
            raise ValueError(f"--{name} {value}: must be at most {most}, which is --max_new_tokens")
    is_cpu = arguments.device is None or arguments.device.startswith("cpu")
    for name in ("runtime", "int8"):
        if not is_cpu and getattr(arguments, name, None) not in (None, False, "pytorch"):
            raise ValueError(f"--{name}: needs --device cpu")


def find_model(arguments: argparse.Namespace) -> None:
    """Replace the name of a bundled model by its folder; without --model, use the default model and print a note."""
    name = arguments.model or None
    # other commands run models by PyTorch
    has_runtimes = hasattr(arguments, "runtime")
    given = arguments.runtime if has_runtimes else PYTORCH
    settings: dict[str, Any] = {}
    if has_runtimes:
        settings = decoding_settings(arguments)
        settings |= {"device": arguments.device, "dtype": arguments.dtype, "int8": getattr(arguments, "int8", None)}
    arguments.model, runtime = choose_runtime(name, given, settings)
    if name is None:
        print_note(f"no --model: using {DEFAULT_MODEL}, which writes {purpose(DEFAULT_MODEL)}")
    if has_runtimes:
        arguments.runtime = runtime
    # the folder of graphs was not the one that --model names
    if given is None and runtime == ONNX and arguments.model != name:
        print_note("no --runtime: using onnx, in 8 bits; --runtime pytorch uses 32")


def check_output_file(arguments: argparse.Namespace, *endings: str, flag: str = "output", beside: str = "") -> None:
    """Check the output file, if there is one.

    Args:
        endings: those that its name may have.
        flag: the flag that names it.
        beside: the ending of a second file.
    """
    if (name := getattr(arguments, flag)) is None:
        return
    output = Path(name)
    if output.is_dir() or not output.parent.is_dir() or (endings and output.suffix not in endings):
        form = f"a {' or '.join(endings)} file" if endings else "a file"
        raise ValueError(f"--{flag} {output}: must be {form} in an existing folder")
    values = chain.from_iterable(
        value if isinstance(value, list) else [value] for other, value in vars(arguments).items() if other != flag
    )
    inputs = {os.path.realpath(value) for value in values if isinstance(value, str)}
    for file in (output, output.with_suffix(beside)) if beside else (output,):
        if os.path.realpath(file) in inputs:
            own = "" if file == output else f" {file}"
            raise ValueError(f"--{flag} {output}: would replace the input{own}; give it another name")


def load_summarizer(arguments: argparse.Namespace, **settings):
    """The checkpoint's pipeline; errors of transformers are replaced by one that names the checkpoint.

    Args:
        settings: arguments of `pipeline` that override the flags.
    """
    values = vars(arguments)
    given = {name: values.get(name) for name in names(ExtractionFlags)}
    settings |= {name: value for name, value in given.items() if value is not None}
    load = _load_graphs if values.get("runtime") == ONNX else _load_pipeline
    summarizer = load(arguments, settings)
    check_own_settings(values, summarizer.model)
    ignored = summarizer.setting_without_search({name: values.get(name) for name in names(_Settings)})
    if ignored is not None:
        print_note(f"--{ignored}: has no effect, as the model chooses whole sentences; --no-whole_sentences searches")
    inputs = getattr(summarizer.processor, "model_input_names", ())
    if values.get("phrase") is not None and "phrase_starts" not in inputs:
        raise ValueError(f"--phrase: {arguments.model} does not read key phrases, but a highlight_transformer does")
    return summarizer


def _load_graphs(arguments: argparse.Namespace, settings: dict[str, Any]) -> Any:
    """The summarizer of exported graphs: without PyTorch, unless a setting needs it."""
    own = {name: value for name, value in settings.items() if name != "device"} | decoding_settings(arguments)
    prefix, seed = arguments.source_prefix, arguments.seed or 0
    with loading(arguments.model):
        summarizer = load_graphs(arguments.model, source_prefix=prefix, seed=seed, **own)
    return summarizer or _load_pipeline(arguments, settings)


def _load_pipeline(arguments: argparse.Namespace, settings: dict[str, Any]) -> Any:
    """The pipeline of a checkpoint."""
    import torch

    from hf_summ.models.quantization_int8 import Int8Config

    model, values = arguments.model, vars(arguments)
    options = {name: values[name] for name in ("revision", "device", "trust_remote_code")}
    # for the model alone: transformers could not save a tokenizer that was loaded with a dtype
    options["model_kwargs"] = {"dtype": arguments.dtype or "auto"}
    if values.get("source_prefix") is not None:
        settings["source_prefix"] = arguments.source_prefix
    if values.get("runtime") == ONNX:
        settings |= {"device": "cpu", "runtime": arguments.runtime}
    if values.get("int8"):
        settings |= {"device": "cpu", "model_kwargs": {"quantization_config": Int8Config()}}
    with loading(model):
        summarizer = load_pipeline(model, **{**options, **settings})
    # building a model draws random numbers
    torch.manual_seed(values.get("seed") or 0)
    return summarizer


def checkpoint_identity(arguments: argparse.Namespace) -> dict[str, Any]:
    """The identity of the checkpoint, or of its graphs, see `model_identity`."""
    with loading(arguments.model):
        checkpoint = str(find(arguments.model)) if arguments.runtime == "onnx" else arguments.model
        return model_identity(checkpoint, arguments.revision)


@contextmanager
def loading(model: str) -> Generator[None]:
    """Within, replace errors of transformers by a ValueError that names the checkpoint."""
    try:
        yield
    except Exception as error:
        # for broken files, transformers and tokenizers raise errors of any type
        reason = str(error).strip() or type(error).__name__
        if isinstance(error, UnpicklingError):
            # torch's own message advises to run the code
            reason = "it contains more than weights, or is damaged"
        # the last line of a traceback has the message
        if "Traceback" in reason:
            reason = reason.splitlines()[-1]
        raise ValueError(f"--model {model}: cannot be loaded: {one_line(reason)}") from error


def read_phrases(items: list[str] | None) -> dict[str, float] | None:
    """Phrase -> value, from `TEXT=VALUE` or `TEXT`; raises a ValueError if a value is not a number."""
    if items is None:
        return None
    phrases = {}
    for item in items:
        text, _, value = item.rpartition("=") if "=" in item else (item, "=", "1")
        try:
            phrases[text] = float(value)
        except ValueError:
            raise ValueError(f"--phrase {item!r}: must be TEXT=VALUE with a number") from None
    return phrases


def check_is_text(file: str, remedy: str) -> None:
    """Raise a ValueError for a file of rows; `remedy` is what to do instead."""
    # imported here, as it is slow
    from hf_summ.data.files import is_row_file

    if is_row_file(file):
        raise ValueError(f"{file} is a file of rows: {remedy}")


def read_document(file: str, encoding: str) -> str:
    """The text of a file or of standard input."""
    if file == STANDARD_INPUT:
        if sys.stdin.isatty():
            print_note("waiting for a text: type or paste it, and end it with Ctrl-D on a new line; --help shows more")
        content = sys.stdin.buffer.read()
    else:
        content = Path(file).read_bytes()
    try:
        # a byte-order mark is not part of the text
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name_of(file)} is not text in {encoding} (byte {error.start}): name its encoding with --encoding"
        ) from error
    except LookupError as error:
        raise ValueError(f"--encoding {encoding}: unknown; name one such as utf-8 or latin-1") from error


def name_of(file: str) -> str:
    """The file's name for messages."""
    return "standard input" if file == STANDARD_INPUT else file


def write_summaries(text: str, output: str | None) -> None:
    """Write the lines to a file, or to standard output."""
    if output is None:
        sys.stdout.write(text)
        return
    from hf_summ.common.files import write_atomically

    write_atomically(Path(output), text)
