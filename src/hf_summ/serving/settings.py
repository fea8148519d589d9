"""The limits of a service."""

import dataclasses
from dataclasses import dataclass

from hf_summ.common.flags import flag
from hf_summ.models.checks import Range, Setting


@dataclass(frozen=True)
class Limits:
    """Limits of requests, queue and batches, and access control; each is a flag of `hf-summ serve`.

    Raises:
        ValueError: a limit is too small.
    """

    batch_size: int = flag("reporting", "Maximum number of documents per batch", 16)
    batch_wait: float = flag(
        "reporting", "Milliseconds that an idle service waits for more requests before decoding", 5.0
    )
    limit_queue: int = flag("reporting", "Number of waiting documents from which on further requests are rejected", 256)
    limit_characters: int = flag("reporting", "Maximum number of characters of a request's body", 100_000)
    limit_beam_tokens: int = flag(
        "reporting", "Maximum product of a request's beams and new tokens; the default must not exceed it", 4096
    )
    allowed_hosts: str = flag(
        "reporting",
        "Comma-separated names and addresses of this service, such as *.example.org; requests to others are rejected",
        "",
        unset="localhost, 127.0.0.1 and [::1], if --host is one of them, and otherwise any",
    )
    api_key_file: str = flag("secret", "File with the API key that requests must send", "", unset="no key is needed")
    drain_seconds: float = flag("reporting", "Seconds after SIGTERM within which accepted requests are finished", 30.0)

    def __post_init__(self):
        """Check the numbers.

        Raises:
            ValueError: an integer is below 1, or another number is below 0 or NaN.
        """
        for field in dataclasses.fields(self):
            if field.type is str:
                continue
            value = getattr(self, field.name)
            least = 1 if field.type is int else 0
            # No comparison with NaN holds, so `value < least` would not reject it.
            is_allowed = value >= least
            if not is_allowed:
                raise ValueError(f"--{field.name} {value}: must be at least {least}")


def request_range(setting: Setting) -> Range:
    """The values of a numeric setting that requests may use: those in its range that are not beyond its limit."""
    most = setting.request_limit
    least = max(setting.range.least, -most)
    return Range(least, most, excludes_least=setting.range.excludes_least)
