"""What the service accepts of its clients, and how it batches their requests."""

import dataclasses
from dataclasses import dataclass

from hf_summ.common.flags import flag


@dataclass(frozen=True)
class Limits:
    """Limits of requests, of the queue and of batches; each is a flag of `hf-summ serve`.

    Raises:
        ValueError: a limit is too small.
    """

    batch_size: int = flag("reporting", "Number of documents that are decoded together at most", 16)
    batch_wait: float = flag(
        "reporting", "Milliseconds that a request waits for others to be decoded with while nothing is decoded", 5.0
    )
    limit_queue: int = flag("reporting", "Number of waiting requests at which further ones are refused", 256)
    limit_body: int = flag("reporting", "Maximum number of bytes of a request", 1_048_576)
    limit_source_tokens: int = flag("reporting", "Maximum number of tokens of a document", 100_000)
    limit_new_tokens: int = flag("reporting", "Maximum number of tokens that a request may ask for", 1024)
    limit_num_beams: int = flag("reporting", "Maximum number of beams that a request may ask for", 16)
    limit_seconds: float = flag("reporting", "Seconds that a client may take to send a request", 20.0)
    drain_seconds: float = flag("reporting", "Seconds within which requests are finished after SIGTERM", 30.0)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 1 if field.type is int else 0
            # also refuses what is not a number
            if not value >= least:
                raise ValueError(f"--{field.name} {value}: must be at least {least}")
