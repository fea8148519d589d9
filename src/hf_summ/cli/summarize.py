"""`hf-summ summarize`: summaries of files or of standard input."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hf_summ.models.text_cleaning import readable

_STANDARD_INPUT = "-"


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "summarize",
        help="Summarize text files",
        description="Summarize each file as one document, or all of them together; `-` or no file reads standard "
        "input.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="Text files, or - for standard input (default: -)")
    parser.add_argument("--model", required=True, help="Checkpoint folder, or name of a Hub repository")
    parser.add_argument("--revision", help="Branch, tag or commit of the repository (default: main)")
    parser.add_argument(
        "--together", action="store_true", help="Write one summary of all files (default: one of each file)"
    )
    parser.add_argument(
        "--phrase",
        action="append",
        metavar="TEXT=VALUE",
        help="A phrase that the summary is to be about, for models that read key phrases, and its value (default: 1); "
        "may be repeated (default: those that are found)",
    )
    parser.add_argument("--output", help="File for the summaries (default: standard output)")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text", help="Output format (default: text)")
    parser.add_argument("--encoding", default="utf-8", help="Encoding of the files (default: utf-8)")
    parser.add_argument("--batch_size", type=int, default=8, help="Number of documents per batch (default: 8)")
    parser.add_argument("--device", default=None, help="cpu, cuda, cuda:1, mps, ... (default: the best available)")
    parser.add_argument(
        "--int8",
        action="store_true",
        help="Decode on the CPU with linear layers in 8 bits, about twice as fast (default: do not)",
    )
    parser.add_argument("--num_beams", type=int, help="Number of beams (default: the checkpoint's)")
    parser.add_argument(
        "--max_new_tokens", type=int, help="Maximum number of subwords of a summary (default: the checkpoint's)"
    )
    parser.add_argument(
        "--min_new_words", type=int, help="Minimum number of words of a summary (default: the checkpoint's)"
    )
    parser.add_argument(
        "--length_penalty",
        type=float,
        help="Exponent of the length by which scores are divided; above 0 favors longer summaries (default: the "
        "checkpoint's)",
    )
    parser.add_argument(
        "--replace_unk",
        action=argparse.BooleanOptionalAction,
        help="Replace unknown words by the most attended words of the document (default: the checkpoint's)",
    )
    parser.add_argument(
        "--trust_remote_code", action="store_true", help="Run code that comes with the checkpoint (default: do not)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Summarize the files.

    Raises:
        ValueError: a number that is too small, a device or an output folder that does not exist, a file that cannot be
            read or is not text in the given encoding, or a model that cannot be loaded. All are checked before anything
            long starts.
    """
    _check(arguments)
    phrases = _phrases(arguments.phrase)
    files = arguments.files or [_STANDARD_INPUT]
    documents = [_read(file, arguments.encoding) for file in files]
    summarizer = _load(arguments)
    if phrases is not None and "phrase_starts" not in getattr(summarizer.processor, "model_input_names", ()):
        raise ValueError(f"--phrase: {arguments.model} does not read key phrases, but a highlight_transformer does")
    keys = ("num_beams", "max_new_tokens", "min_new_words", "length_penalty", "replace_unk")
    settings = {key: getattr(arguments, key) for key in keys if getattr(arguments, key) is not None}
    written = [index for index, document in enumerate(documents) if document.strip()]
    for index in sorted(set(range(len(documents))) - set(written)):
        effect = "it is left out" if arguments.together else "its summary is empty"
        print(f"hf-summ: {_name(files[index])} is blank: {effect}", file=sys.stderr)
    texts = [documents[index] for index in written]
    # a file's name may contain bytes that are not text
    names: Sequence[str | list[str]] = list(map(readable, files))
    if arguments.together:
        names, written, texts = [list(map(readable, files))], [0] if texts else [], [texts] if texts else []
    summaries = [""] * len(names)
    if phrases is not None:
        settings["phrases"] = [phrases] * len(texts)
    results = summarizer(
        texts, batch_size=min(arguments.batch_size, max(len(texts), 1)), show_progress=len(texts) > 1, **settings
    )
    for index, result in zip(written, results, strict=True):
        summaries[index] = result["summary_text"]
    _write("".join(_lines(names, summaries, arguments.format)), arguments.output)


def _phrases(items: list[str] | None) -> dict[str, float] | None:
    """Phrase -> value, from `TEXT=VALUE` or `TEXT`."""
    if items is None:
        return None
    phrases = {}
    for item in items:
        text, separator, value = item.rpartition("=")
        try:
            phrases[text if separator else item] = float(value) if separator else 1.0
        except ValueError:
            raise ValueError(f"--phrase {item!r}: {value!r} is not a number; write TEXT=VALUE") from None
    return phrases


def _check(arguments: argparse.Namespace) -> None:
    import torch

    for name, least in (("batch_size", 1), ("num_beams", 1), ("max_new_tokens", 1), ("min_new_words", 0)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise ValueError(f"--{name} {value}: must be at least {least}")
    if arguments.output is not None:
        output = Path(arguments.output)
        if output.is_dir() or not output.parent.is_dir():
            raise ValueError(f"--output {output}: must be a file in an existing folder")
    if arguments.device is not None:
        try:
            torch.empty(0, device=arguments.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"--device {arguments.device}: {str(error).splitlines()[0]}") from error
    if arguments.int8 and torch.device(arguments.device or "cpu").type != "cpu":
        raise ValueError(f"--int8 and --device {arguments.device} exclude each other: 8 bits are for CPUs")


def _load(arguments: argparse.Namespace):
    """The checkpoint's pipeline; transformers' errors are replaced by one that names the checkpoint."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import pipeline

    # registers architectures and pipeline
    from hf_summ.models import Int8Config
    from hf_summ.training.checkpoints import model_problem

    model = arguments.model
    problem = model_problem(model) if Path(model).is_dir() else None
    if problem is not None:
        raise ValueError(f"--model {model}: {problem}; name another checkpoint, or copy it again if it is incomplete")
    try:
        return pipeline(
            "summarization",
            model=model,
            revision=arguments.revision,
            device="cpu" if arguments.int8 else arguments.device,
            model_kwargs={"quantization_config": Int8Config()} if arguments.int8 else {},
            trust_remote_code=arguments.trust_remote_code,
        )
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = str(error).strip()
        # the last line of a traceback says what happened
        reason = reason.splitlines()[-1] if "Traceback" in reason else reason
        missing = "" if Path(model).exists() else "no such folder, and no such repository on the Hub within reach: "
        raise ValueError(f"--model {model}: cannot be loaded: {missing}{reason}") from error


def _read(file: str, encoding: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == _STANDARD_INPUT else Path(file).read_bytes()
        # a byte-order mark is not part of the text
        return content.decode(encoding).removeprefix("\ufeff")
    except OSError as error:
        raise ValueError(f"{_name(file)} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{_name(file)} is not text in {encoding} (byte {error.start}): name its encoding with --encoding"
        ) from error
    except LookupError as error:
        raise ValueError(f"--encoding {encoding}: unknown; name one such as utf-8 or latin-1") from error


def _lines(names: Sequence[str | list[str]], summaries: list[str], output_format: str) -> Iterator[str]:
    """The lines of output; a name is that of a file, or those of files that were summarized together."""
    for name, summary in zip(names, summaries, strict=True):
        if output_format == "jsonl":
            source = {"file": name} if isinstance(name, str) else {"files": name}
            yield json.dumps({**source, "summary": summary}, ensure_ascii=False) + "\n"
        else:
            heading = f"{name}: " if len(names) > 1 else ""
            yield f"{heading}{summary}\n"


def _write(text: str, output: str | None) -> None:
    if output is None:
        # a character that the terminal lacks should not prevent the others
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        return
    from hf_summ.common.files import write_atomically

    write_atomically(Path(output), text)


def _name(file: str) -> str:
    return "standard input" if file == _STANDARD_INPUT else file
