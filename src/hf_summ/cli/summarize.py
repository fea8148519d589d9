"""`hf-summ summarize`: summaries of files or of standard input."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from hf_summ.models.text_cleaning import readable

_STANDARD_INPUT = "-"


def add_parser(commands) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser(
        "summarize",
        help="summarize text files",
        description="Summarizes each file as one document; `-` or no file at all reads standard input.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="text files; - for standard input (default: -)")
    parser.add_argument("--model", required=True, help="checkpoint folder, or name of a Hub repository")
    parser.add_argument("--revision", help="branch, tag or commit of the repository (default: main)")
    parser.add_argument("--output", help="file to write to (default: standard output)")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text", help="text or jsonl (default: text)")
    parser.add_argument("--encoding", default="utf-8", help="of the files (default: utf-8)")
    parser.add_argument("--batch_size", type=int, default=8, help="documents at a time (default: 8)")
    parser.add_argument("--device", default=None, help="cpu, cuda, cuda:1, mps, ... (default: the best there is)")
    parser.add_argument("--num_beams", type=int, help="beam size (default: the checkpoint's)")
    parser.add_argument("--max_new_tokens", type=int, help="longest summary in subwords (default: the checkpoint's)")
    parser.add_argument("--min_new_words", type=int, help="shortest summary in words (default: the checkpoint's)")
    parser.add_argument("--length_penalty", type=float, help="above 0 favours longer ones (default: the checkpoint's)")
    parser.add_argument("--trust_remote_code", action="store_true", help="run code that comes with the checkpoint")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Summarize the files.

    Raises:
        ValueError: a number is too small, a device or output that is not there, a file that cannot be read or is not
            text in the given encoding, a model that cannot be loaded. All are told before anything long starts.
    """
    _check(arguments)
    files = arguments.files or [_STANDARD_INPUT]
    documents = [_read(file, arguments.encoding) for file in files]
    summarizer = _load(arguments)
    keys = ("num_beams", "max_new_tokens", "min_new_words", "length_penalty")
    settings = {key: getattr(arguments, key) for key in keys if getattr(arguments, key) is not None}
    written = [index for index, document in enumerate(documents) if document.strip()]
    for index in sorted(set(range(len(documents))) - set(written)):
        print(f"hf-summ: {_name(files[index])} is blank: its summary is empty", file=sys.stderr)
    summaries = [""] * len(documents)
    results = summarizer(
        [documents[index] for index in written],
        batch_size=min(arguments.batch_size, max(len(written), 1)),
        show_progress=len(written) > 1,
        **settings,
    )
    for index, result in zip(written, results, strict=True):
        summaries[index] = result["summary_text"]
    _write("".join(_lines(files, summaries, arguments.format)), arguments.output)


def _check(arguments: argparse.Namespace) -> None:
    import torch

    for name, least in (("batch_size", 1), ("num_beams", 1), ("max_new_tokens", 1), ("min_new_words", 0)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise ValueError(f"--{name} is {value}, but at least {least} is needed")
    if arguments.output is not None:
        output = Path(arguments.output)
        if output.is_dir() or not output.parent.is_dir():
            raise ValueError(f"--output {output}: name a file, in a folder that exists")
    if arguments.device is not None:
        try:
            torch.empty(0, device=arguments.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"--device {arguments.device}: {str(error).splitlines()[0]}") from error


def _load(arguments: argparse.Namespace):
    """The checkpoint's pipeline; transformers' own errors become one that names the checkpoint."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import pipeline

    import hf_summ  # noqa: F401 registers architectures and pipeline
    from hf_summ.training.checkpoints import model_problem

    model = arguments.model
    problem = model_problem(model) if Path(model).is_dir() else None
    if problem is not None:
        raise ValueError(
            f"--model {model}: {problem}. Was it not written to its end? Name an earlier checkpoint, or copy it again"
        )
    try:
        return pipeline(
            "summarization",
            model=model,
            revision=arguments.revision,
            device=arguments.device,
            trust_remote_code=arguments.trust_remote_code,
        )
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = str(error).strip()
        # the last line of a traceback says what happened
        reason = reason.splitlines()[-1] if "Traceback" in reason else reason
        missing = "" if Path(model).exists() else "there is no such folder, and it is no Hub repository at hand: "
        raise ValueError(f"--model {model} cannot be loaded: {missing}{reason}") from error


def _read(file: str, encoding: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == _STANDARD_INPUT else Path(file).read_bytes()
        # a byte-order mark is no part of the text
        return content.decode(encoding).removeprefix("\ufeff")
    except OSError as error:
        raise ValueError(f"{_name(file)} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{_name(file)} is not text in {encoding} (byte {error.start}): name its encoding with --encoding"
        ) from error
    except LookupError as error:
        raise ValueError(f"--encoding {encoding} is not known: name one such as utf-8 or latin-1") from error


def _lines(files: list[str], summaries: list[str], output_format: str) -> Iterator[str]:
    # a file's name may hold bytes that are no text
    for file, summary in zip(map(readable, files), summaries, strict=True):
        if output_format == "jsonl":
            yield json.dumps({"file": file, "summary": summary}, ensure_ascii=False) + "\n"
        else:
            heading = f"{file}: " if len(files) > 1 else ""
            yield f"{heading}{summary}\n"


def _write(text: str, output: str | None) -> None:
    if output is None:
        # a terminal may lack a character, and that should not cost the others
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        return
    from hf_summ.common.files import write_atomically

    write_atomically(Path(output), text)


def _name(file: str) -> str:
    return "standard input" if file == _STANDARD_INPUT else file
