"""The limits of a service, and the settings that requests may set.

The latter are an allow-list: other settings load code, read files or exhaust memory.
"""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hf_summ.common.flags import flag
from hf_summ.common.messages import nearest, unknown_choice
from hf_summ.models.checks import SETTINGS, Range, Setting

_DEFAULTS = (("truncation", True), ("return_details", False))
# settings of the pipeline itself
_OF_PIPELINE = {
    # as in transformers' `TruncationStrategy`
    "truncation": Setting(
        Literal["do_not_truncate", "longest_first", "only_first", "only_second"],
        help="`do_not_truncate` refuses a document that is too long; the others truncate it",
    ),
    "long_documents": Setting(
        Literal["truncate", "extract", "windows"], help="How to read a document that is too long"
    ),
    "return_details": Setting(bool, help="Add `details`: what was read and what was truncated"),
    "clean_up_tokenization_spaces": Setting(bool, help="Remove spaces before punctuation"),
}


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
    limit_queue: int = flag("reporting", "Number of waiting requests at which further ones are refused", 256)
    limit_body: int = flag("reporting", "Maximum number of bytes of a request", 1_048_576)
    limit_source_tokens: int = flag("reporting", "Maximum number of tokens of a document", 100_000)
    limit_new_tokens: int = flag("reporting", "Maximum number of new tokens per summary, for the default too", 1024)
    limit_num_beams: int = flag("reporting", "Maximum number of beams, for the default too", 16)
    limit_work: float = flag(
        "reporting", "Maximum product of windows, beams, new tokens and tokens that each new token reads", 1e7
    )
    limit_decode_seconds: float = flag("reporting", "Seconds after which the decoding of a summary is aborted", 30.0)
    limit_seconds: float = flag("reporting", "Seconds that a client may take to send a request", 20.0)
    allowed_hosts: str = flag(
        "reporting",
        "Comma-separated names of this service: requests to other names are refused, to addresses accepted",
        "",
        unset="localhost, if --host is this machine's own address, and otherwise any",
    )
    api_key_file: str = flag("secret", "File with the API key that requests must send", "", unset="no key is needed")
    drain_seconds: float = flag("reporting", "Seconds after SIGTERM within which accepted requests are finished", 30.0)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is str:
                continue
            least = 1 if field.type is int else 0
            # `not >=` also rejects NaN
            if not value >= least:
                raise ValueError(f"--{field.name} {value}: must be at least {least}")


def read_settings(parameters: Any, limits: Limits, generation_keys: Collection[str]) -> dict[str, Any]:
    """The pipeline's settings in a request's `parameters`.

    Args:
        parameters: `SummarizationParameters` of huggingface_hub; its `generate_parameters` may also be given directly.
        generation_keys: as for `asked_settings`.

    Raises:
        ValueError: a setting is unknown, not allowed or given twice, or its value is out of range or of another type.
    """
    given = _flat(parameters)
    known = asked_settings(generation_keys)
    for name in given:
        if name not in known:
            raise ValueError(f"unknown parameter '{name:.80}'{nearest(name[:80], (*known, 'generate_parameters'))}")
    settings = {name: _checked(name, value, known[name], limits) for name, value in given.items()}
    # equivalent values become equal, and batch together
    if "truncation" in settings:
        settings["truncation"] = settings["truncation"] != "do_not_truncate"
    return {name: value for name, value in settings.items() if (name, value) not in _DEFAULTS}


def asked_settings(generation_keys: Collection[str]) -> dict[str, Setting]:
    """The settings that requests may set, by name.

    Args:
        generation_keys: the model's own settings of `generate()`.
    """
    asked = {name: setting for name, setting in SETTINGS.items() if setting.asked}
    own = {name: setting for name, setting in asked.items() if not setting.own_to or name in generation_keys}
    return own | _OF_PIPELINE


def request_range(setting: Setting, limits: Limits) -> Range:
    """The range that requests may use."""
    most = getattr(limits, setting.asked) if isinstance(setting.asked, str) else setting.asked
    return Range(max(setting.range.least, -most), most)


def _flat(parameters: Any) -> dict[str, Any]:
    """All parameters in one mapping, without those that are null."""
    outer = dict(_mapping("parameters", parameters))
    inner = _mapping("generate_parameters", outer.pop("generate_parameters", None))
    given = {name: value for name, value in outer.items() if value is not None}
    for name, value in inner.items():
        if value is not None and name in given:
            raise ValueError(f"`{name:.80}` stands in `generate_parameters` and beside it: set only one")
        if value is not None:
            given[name] = value
    return given


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"`{name}` must be an object, but is {type(value).__name__}: {value!r:.80}")
    return value or {}


def _checked(name: str, value: Any, setting: Setting, limits: Limits) -> Any:
    if setting.choices:
        if value not in setting.choices:
            raise ValueError(unknown_choice(f"`{name}`", f"{value!s:.80}", setting.choices))
        return value
    if setting.kind is bool:
        if not isinstance(value, bool):
            raise ValueError(f"`{name}` must be true or false, but is {type(value).__name__}: {value!r:.80}")
        return value
    kinds = (int,) if setting.kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        wanted = "an integer" if setting.kind is int else "a number"
        raise ValueError(f"`{name}` must be {wanted}, but is {type(value).__name__}: {value!r:.80}")
    allowed = request_range(setting, limits)
    if value not in allowed:
        raise ValueError(f"`{name}` is {_shown(value)}, but must be {allowed}")
    return setting.kind(value)


def _shown(number: float) -> str:
    """A number, shortened if it has many digits."""
    text = str(number)
    return text if len(text) <= 24 else f"{text[:20]}…"
