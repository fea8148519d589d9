"""Shared parts of the commands that summarize: flags, loading of models, and reading of documents."""

import argparse
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hf_summ.common.flags import with_default
from hf_summ.common.messages import nearest, one_line
from hf_summ.data.columns import DOCUMENT_COLUMNS, REFERENCE_COLUMNS
from hf_summ.data.rows import STREAMED_FILES, kind_of_file, locate, read_rows
from hf_summ.models.checks import SETTINGS, Range, Setting, check_own_settings
from hf_summ.pretrained import DEFAULT_MODEL, bundled_model, bundled_models, model_folder, purpose

STANDARD_INPUT = "-"
_DECODING = {name: setting for name, setting in SETTINGS.items() if setting.help}
# a decoding flag, but not a setting of `generate()`
_SEED = Setting(int, Range(0, 2**31 - 1), "Random seed of sampling", needs=("do_sample", "sample_latent"))
_OF_EXPORT = "`hf-summ export` sets the precision"
_EXCLUSIVE = (
    ("int8", "runtime", _OF_EXPORT),
    ("dtype", "runtime", _OF_EXPORT),
    ("dtype", "int8", "--int8 sets the precision"),
)
_LONG_DOCUMENTS = ("truncate", "extract", "windows")


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select the checkpoint, the device and the precision."""
    parser.add_argument(
        "--model",
        help="Checkpoint folder, or name of a bundled model or of a Hub repository "
        f"(default: {DEFAULT_MODEL}, which is bundled)",
    )
    parser.add_argument("--revision", help="Branch, tag or commit of the repository (default: main)")
    parser.add_argument("--device", default=None, help="cpu, cuda, cuda:1, mps, ... (default: the best available)")
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="Precision of the model's computation (default: its config's)",
    )
    parser.add_argument(
        "--source_prefix",
        metavar="TEXT",
        help="Text to put before each document, for models that were trained with several (default: the checkpoint's)",
    )
    parser.add_argument(
        "--trust_remote_code", action="store_true", help="Run code that comes with the checkpoint (default: do not)"
    )


def add_document_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the documents' encoding and key phrases."""
    parser.add_argument("--encoding", default="utf-8", help="Encoding of the files (default: utf-8)")
    parser.add_argument(
        "--phrase",
        action="append",
        metavar="TEXT=VALUE",
        help="Key phrase that the summary should be about, and its value (default: 1), for models that read key "
        "phrases; may be repeated (default: phrases that the processor finds)",
    )


def add_column_flags(parser: Any) -> None:
    """Add the flags that name columns of rows."""
    for name, what, known in (
        ("text_column", "documents", DOCUMENT_COLUMNS),
        ("summary_column", "references", REFERENCE_COLUMNS),
    ):
        help = with_default(f"Column of the {what} in files of rows", f"the first of {', '.join(known)}")
        parser.add_argument(f"--{name}", help=help)


def add_runtime_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag for the runtime."""
    parser.add_argument(
        "--runtime",
        choices=["onnx"],
        help="Decode on the CPU with a model that `hf-summ export` wrote; --model is the exported folder, or the "
        "checkpoint's folder that contains it (default: PyTorch)",
    )


def add_int8_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag for 8-bit decoding."""
    parser.add_argument(
        "--int8",
        action="store_true",
        help="Decode on the CPU with linear layers in 8 bits, about twice as fast (default: do not)",
    )


def add_decoding_flags(parser: argparse.ArgumentParser) -> None:
    """Add the decoding flags."""
    for name, setting in _DECODING.items():
        help = with_default(setting.help, "the checkpoint's")
        if setting.type is bool:
            parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=help)
        elif setting.choices:
            parser.add_argument(f"--{name}", choices=setting.choices, help=help)
        else:
            parser.add_argument(f"--{name}", type=setting.type, help=help)
    parser.add_argument("--seed", type=_SEED.type, help=with_default(_SEED.help, 0))


def add_length_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for documents that are too long for the model."""
    parser.add_argument(
        "--long_documents",
        choices=_LONG_DOCUMENTS,
        default=_LONG_DOCUMENTS[0],
        help="What to read of a document that is too long: its beginning (truncate), its most important sentences "
        "(extract), or summaries of all its parts (windows) (default: truncate)",
    )
    parser.add_argument(
        "--language", default="en", help="ISO 639 code of the documents' language, for sentence splitting (default: en)"
    )


def decoding_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The decoding flags that were given, by name."""
    return {name: value for name in _DECODING if (value := getattr(arguments, name)) is not None}


def length_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The pipeline's settings for long documents."""
    return {"long_documents": arguments.long_documents, "language": arguments.language}


def check_flags(arguments: argparse.Namespace, **least: int) -> None:
    """Check numbers and the device.

    Args:
        least: flag -> its minimum, for flags that only this command has.

    Raises:
        ValueError: a number is out of range, the device does not exist, flags exclude each other, or a flag has no
            effect with the others.
    """
    import torch

    ranges = {name: Range(smallest) for name, smallest in least.items()}
    ranges |= {name: setting.range for name, setting in _DECODING.items() if setting.type in (int, float)}
    for name, allowed in {**ranges, "seed": _SEED.range}.items():
        value = getattr(arguments, name)
        problem = None if value is None else allowed.problem(value)
        if problem is not None:
            raise ValueError(f"--{name} {value}: must be {problem}")
    _check_effects(arguments)
    if arguments.device is not None:
        try:
            torch.empty(0, device=arguments.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"--device {arguments.device:.80}: {str(error).splitlines()[0]:.150}") from error
    for name, what in (("runtime", "runtimes"), ("int8", "8 bits")):
        if getattr(arguments, name, None) and torch.device(arguments.device or "cpu").type != "cpu":
            raise ValueError(f"--{name} and --device {arguments.device} exclude each other: {what} are for CPUs")


def _check_effects(arguments: argparse.Namespace) -> None:
    """Raise a ValueError for a flag that excludes another, or that has no effect without or with another."""
    for one, other, why in _EXCLUSIVE:
        if getattr(arguments, one, None) and getattr(arguments, other, None):
            raise ValueError(f"--{one} and --{other} exclude each other: {why}")
    given = decoding_settings(arguments)
    for name, setting in {**_DECODING, "seed": _SEED}.items():
        value = getattr(arguments, name)
        if value in (None, False):
            continue
        if setting.needs and not any(map(given.get, setting.needs)):
            raise ValueError(f"--{name} {value}: needs --{' or --'.join(setting.needs)}")
        if setting.needs_beams and given.get("num_beams") == 1:
            raise ValueError(f"--{name} {value}: needs --num_beams of at least 2")
    most = given.get("max_new_tokens")
    for name in ("min_new_tokens", "min_new_words"):
        if most is not None and given.get(name, 0) > most:
            raise ValueError(f"--{name} {given[name]}: must be at most {most}, which is --max_new_tokens")


def find_model(arguments: argparse.Namespace) -> None:
    """Replace the name of a bundled model by its folder; without --model, use the default model and print a note.

    Raises:
        ValueError: the folder is missing or damaged.
    """
    if arguments.model is None:
        arguments.model = str(bundled_model())
        print(f"hf-summ: no --model: {DEFAULT_MODEL}, which writes {purpose(DEFAULT_MODEL)}", file=sys.stderr)
    arguments.model = model_folder(arguments.model)


def check_output_file(arguments: argparse.Namespace) -> None:
    """Check the output file, if there is one.

    Raises:
        ValueError: it is a folder, or is in a folder that does not exist.
    """
    if arguments.output is not None:
        output = Path(arguments.output)
        if output.is_dir() or not output.parent.is_dir():
            raise ValueError(f"--output {output}: must be a file in an existing folder")


def load_summarizer(arguments: argparse.Namespace, **settings):
    """The checkpoint's pipeline; errors of transformers are replaced by one that names the checkpoint.

    Args:
        settings: arguments of `pipeline` that override the flags.

    Raises:
        ValueError: the checkpoint cannot be loaded, or does not support the given phrases or settings.
    """
    import torch
    from transformers import pipeline

    from hf_summ.checkpoints.adapters import find_adapter
    from hf_summ.checkpoints.folders import model_problem
    from hf_summ.checkpoints.loading import ModelArguments, load_config, load_processor
    from hf_summ.models.quantization_int8 import Int8Config

    model = arguments.model
    problem = model_problem(model) if Path(model).is_dir() else None
    if problem is not None:
        raise ValueError(f"--model {model}: {problem}; name another checkpoint, or copy it again if it is incomplete")
    flags = {name: getattr(arguments, name) for name in ("revision", "device", "trust_remote_code")}
    # for the model alone: transformers could not save a tokenizer that was loaded with a dtype
    flags["model_kwargs"] = {"dtype": arguments.dtype or "auto"}
    if getattr(arguments, "source_prefix", None) is not None:
        settings["source_prefix"] = arguments.source_prefix
    if getattr(arguments, "runtime", None) is not None:
        settings |= {"device": "cpu", "runtime": arguments.runtime}
    if getattr(arguments, "int8", False):
        settings |= {"device": "cpu", "model_kwargs": {"quantization_config": Int8Config()}}
    named = ModelArguments(
        model_name_or_path=model,
        model_revision=arguments.revision or "main",
        trust_remote_code=arguments.trust_remote_code,
    )
    with loading(model):
        adapter = find_adapter(named)
        if adapter is not None:
            # `pipeline` takes everything but the adapter's weights from the base model
            settings["processor"] = load_processor(adapter.with_tokenizer, load_config(adapter.base))
        summarizer = pipeline("summarization", model=model, **{**flags, **settings})
        if adapter is not None and (own := adapter.generation_config()) is not None:
            summarizer.model.generation_config = own
    # building a model draws random numbers
    torch.manual_seed(getattr(arguments, "seed", None) or 0)
    check_own_settings({name: getattr(arguments, name, None) for name in _DECODING}, summarizer.model)
    phrases = getattr(arguments, "phrase", None)
    if phrases is not None and "phrase_starts" not in getattr(summarizer.processor, "model_input_names", ()):
        raise ValueError(f"--phrase: {model} does not read key phrases, but a highlight_transformer does")
    return summarizer


@contextmanager
def loading(model: str) -> Generator[None]:
    """Within, replace errors of transformers by a ValueError that names the checkpoint."""
    try:
        yield
    except Exception as error:
        # for broken files, transformers and tokenizers raise errors of any type
        reason = str(error).strip() or type(error).__name__
        # the last line of a traceback has the message
        reason = one_line(reason.splitlines()[-1] if "Traceback" in reason else reason)
        if not Path(model).exists():
            # names with a slash are repositories or paths, not bundled models
            hint = "" if "/" in model else nearest(model, bundled_models(), cutoff=0.7)
            reason = f"no such folder, and no such repository on the Hub within reach{hint or f': {reason}'}"
        raise ValueError(f"--model {model}: cannot be loaded: {reason}") from error


def read_phrases(items: list[str] | None) -> dict[str, float] | None:
    """Phrase -> value, from `TEXT=VALUE` or `TEXT`.

    Raises:
        ValueError: a value is not a number.
    """
    if items is None:
        return None
    phrases = {}
    for item in items:
        text, separator, value = item.rpartition("=")
        try:
            phrases[text if separator else item] = float(value) if separator else 1.0
        except ValueError:
            raise ValueError(f"--phrase {item!r:.80}: {value!r:.80} is not a number; write TEXT=VALUE") from None
    return phrases


def check_is_text(file: str, way: str, name_columns: bool = False) -> None:
    """Check that a file is not one of rows.

    Args:
        way: what to do instead.
        name_columns: whether the message ends with the file's columns.

    Raises:
        ValueError: it is a file of rows.
    """
    if (kind := kind_of_file(Path(file))) not in STREAMED_FILES:
        return
    if name_columns and kind != ".parquet":
        _, row = next(iter(read_rows(locate(file))), (None, {}))
        way += f" among {', '.join(row)}" if row else ""
    raise ValueError(f"{file} is a file of rows: {way}")


def read_document(file: str, encoding: str) -> str:
    """The text of a file or of standard input.

    Raises:
        ValueError: it cannot be read or is not text in this encoding.
    """
    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        # a byte-order mark is not part of the text
        return content.decode(encoding).removeprefix("\ufeff")
    except OSError as error:
        raise ValueError(f"{name_of(file):.255} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name_of(file)} is not text in {encoding} (byte {error.start}): name its encoding with --encoding"
        ) from error
    except LookupError as error:
        raise ValueError(f"--encoding {encoding:.80}: unknown; name one such as utf-8 or latin-1") from error


def name_of(file: str) -> str:
    """The file's name for messages."""
    return "standard input" if file == STANDARD_INPUT else file


def write_summaries(text: str, output: str | None) -> None:
    """Write the lines to a file, or to standard output."""
    if output is None:
        # replaces characters that the terminal's encoding lacks
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        return
    from hf_summ.common.files import write_atomically

    write_atomically(Path(output), text)
