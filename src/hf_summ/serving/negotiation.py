"""The choice of an answer's format by the client's `Accept` header (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence


def preferred(accept: str | None, offered: Sequence[str]) -> str | None:
    """The media type that a client prefers; the first of those that it prefers equally.

    Args:
        accept: the header, such as `text/turtle;q=0.9, */*;q=0.1`; None or blank takes anything.
        offered: media types without parameters.

    Returns:
        None if it takes none of them.
    """
    ranges = [parsed for part in (accept or "").split(",") if (parsed := _range(part)) is not None]
    if not ranges:
        return None if accept and accept.strip() else offered[0]
    qualities = {media_type: _quality(media_type, ranges) for media_type in offered}
    best = max(offered, key=lambda media_type: qualities[media_type])
    return best if qualities[best] > 0 else None


def _range(part: str) -> tuple[str, float] | None:
    """A media range and its quality from 0 to 1; None if it is none."""
    media_range, *parameters = (word.strip().lower() for word in part.split(";"))
    if media_range.count("/") != 1:
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                # also of what is not a number
                return media_range, min(max(float(value), 0.0), 1.0) if float(value) == float(value) else 0.0
            except ValueError:
                return None
    return media_range, 1.0


def _quality(media_type: str, ranges: Sequence[tuple[str, float]]) -> float:
    """That of the most specific range which the type is in; 0 if there is none."""
    for candidate in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        qualities = [quality for media_range, quality in ranges if media_range == candidate]
        if qualities:
            return max(qualities)
    return 0.0
