"""Cost of a request, estimated within milliseconds before it enters the queue."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from hf_summ.models.checks import SETTINGS
from hf_summ.serving.settings import Limits, request_range

# number of samples of a long text, and characters of each
_SAMPLES, _CHARACTERS = 8, 512
# settings of minimum and maximum length, which can contradict each other
_LEAST, _MOST = ("min_new_tokens", "min_length", "min_new_words"), ("max_new_tokens", "max_length")


def check_cost(document: str, settings: Mapping[str, Any], summarizer: Any, limits: Limits) -> int:
    """The work of a document: windows × beams × new tokens × tokens that each new token attends to.

    The latter are the source's tokens, estimated from a few samples if the text is long, and the previous new tokens.

    Args:
        summarizer: the pipeline; unset settings of the request fall back to its own.

    Raises:
        ValueError: the work exceeds `limit_work`, a setting is out of range for the model, or two contradict.
    """
    beams, new_tokens = _beams_and_tokens(summarizer, {name: settings[name] for name in settings if name in SETTINGS})
    in_windows = settings.get("long_documents", summarizer.long_documents) == "windows"
    length, limit = _length(document, summarizer, in_windows), summarizer.source_limit or 10**9
    windows = max(ceil(length / limit), 1) if in_windows else 1
    read = min(length, limit) + new_tokens
    work = windows * beams * new_tokens * read
    if work > limits.limit_work:
        raise ValueError(
            f"the request is about {work:.2g} units of work, of {windows} windows × {beams} beams × {new_tokens} new "
            f"tokens × {read} tokens that each reads, but the service takes at most {limits.limit_work:.2g}: lower "
            f"`num_beams` or `max_new_tokens`, {'set `long_documents` to extract, ' if windows > 1 else ''}or shorten "
            "the document"
        )
    return work


def check_defaults(summarizer: Any, limits: Limits) -> None:
    """Raise a ValueError if a request that sets no parameters would exceed a limit."""
    for name, value in zip(("num_beams", "max_new_tokens"), _beams_and_tokens(summarizer, {}), strict=True):
        limit, most = SETTINGS[name].request_limit, request_range(SETTINGS[name], limits).most
        if value > most:
            raise ValueError(f"--{limit} {most}: `{name}` is {value} by default: raise the limit, or lower --{name}")


def _beams_and_tokens(summarizer: Any, asked: Mapping[str, Any]) -> tuple[int, int]:
    """Number of beams, and maximum number of new tokens of a summary."""
    settings = summarizer.model.generation_config.to_diff_dict() | summarizer.generation_settings(**asked)
    most = next(name for name in _MOST if settings.get(name) is not None)
    # `max_length` includes the decoder's start token
    number = settings[most] - (most == "max_length")
    for least in _LEAST:
        if asked.get(least, 0) - (least == "min_length") > number:
            raise ValueError(f"`{least}` is {asked[least]}, but `{most}` is {settings[most]}: set the former lower")
    return settings.get("num_beams") or 1, number


def _length(document: str, summarizer: Any, is_read_whole: bool) -> int:
    """Estimated number of tokens of a document; an upper bound if it is truncated."""
    if not is_read_whole and summarizer.source_limit is not None:
        # almost every token has at least one byte
        return len(document.encode())
    step = max(_CHARACTERS, len(document) // _SAMPLES)
    samples = [document[start : start + _CHARACTERS] for start in range(0, len(document), step)]
    rows = summarizer.tokenizer(samples, add_special_tokens=False, verbose=False)["input_ids"] if samples else []
    return sum(map(len, rows)) * len(document) // max(sum(map(len, samples)), 1)
