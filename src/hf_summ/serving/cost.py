"""What a request costs, estimated in milliseconds, before it waits to be decoded."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from hf_summ.models.checks import SETTINGS
from hf_summ.serving.requests import SummaryRequest
from hf_summ.serving.settings import Limits

# the parts of a long text whose tokens are counted, and the characters of each
_PARTS, _CHARACTERS = 8, 512
# the settings of which one says what the other one excludes
_LEAST, _MOST = ("min_new_tokens", "min_length", "min_new_words"), ("max_new_tokens", "max_length")


def check_cost(request: SummaryRequest, summarizer: Any, limits: Limits) -> int:
    """The work of a request: windows × beams × new tokens × the tokens that each of these reads.

    Those are the source's, of which the texts of many tokens are estimated from a few parts, and the ones before it.

    Args:
        summarizer: the pipeline, whose settings are those that the request leaves open.

    Raises:
        ValueError: it is more than `limit_work`, a setting is out of range for the model, or excludes another one.
    """
    asked = {name: value for name, value in request.settings.items() if name in SETTINGS}
    settings = summarizer.model.generation_config.to_diff_dict() | summarizer.generation_settings(**asked)
    beams, new_tokens = settings.get("num_beams") or 1, _new_tokens(settings, asked)
    way = request.settings.get("long_documents", summarizer.long_documents)
    length, limit = _length(request.document, summarizer, way == "windows"), summarizer.source_limit or 10**9
    windows = ceil(length / limit) if way == "windows" else 1
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


def _new_tokens(settings: Mapping[str, Any], asked: Mapping[str, Any]) -> int:
    """The most that a summary may have."""
    most = next(name for name in _MOST if settings.get(name) is not None)
    # the second one counts the token before the first
    number = settings[most] - (most == "max_length")
    for least in _LEAST:
        if asked.get(least, 0) - (least == "min_length") > number:
            raise ValueError(f"`{least}` is {asked[least]}, but `{most}` is {settings[most]}: set the former lower")
    return number


def _length(document: str, summarizer: Any, is_read_whole: bool) -> int:
    """About how many tokens a document has, or of one that is cut, how many it may have."""
    if not is_read_whole and summarizer.source_limit is not None:
        # hardly any token is shorter than a byte
        return len(document.encode())
    step = max(_CHARACTERS, len(document) // _PARTS)
    parts = [document[start : start + _CHARACTERS] for start in range(0, len(document), step)]
    rows = summarizer.tokenizer(parts, add_special_tokens=False, verbose=False)["input_ids"] if parts else []
    return sum(map(len, rows)) * len(document) // max(sum(map(len, parts)), 1)
