"""The schema of requests and responses.

The settings in it are an allow-list: others load code, read files or exhaust memory.
"""

from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from hf_summ.models.checks import SETTINGS, Setting
from hf_summ.models.text_documents import readable
from hf_summ.serving.settings import Limits, request_range

# settings of the pipeline itself
_PIPELINE_SETTINGS = {
    # as in transformers' `TruncationStrategy`
    "truncation": Setting(
        Literal["do_not_truncate", "longest_first", "only_first", "only_second"],
        help="`do_not_truncate` rejects a document that is too long; the others truncate it",
    ),
    "long_documents": Setting(
        Literal["truncate", "extract", "windows"], help="How to read a document that is too long"
    ),
    "return_details": Setting(bool, help="Add `details`: what was read and what was truncated"),
    "clean_up_tokenization_spaces": Setting(bool, help="Remove spaces before punctuation"),
}
# a text, in which lone surrogates are replaced, as those of a client that has split an emoji
_Document = Annotated[str, BeforeValidator(lambda text: readable(text) if isinstance(text, str) else text)]


class Summary(BaseModel):
    """A summary and, if the request sets `return_details`, what was read and truncated."""

    summary_text: str
    details: dict[str, Any] | None = None


class Problem(BaseModel):
    """Why there is no summary."""

    error: str


def request_schema(limits: Limits, generation_keys: Collection[str]) -> type[BaseModel]:
    """Hugging Face's schema of a request: `{"inputs": …, "parameters": {…}, "options": {…}}`.

    The parameters may be in `generate_parameters` or beside it. `options`, which clients of the Inference API send,
    have no effect.

    Args:
        generation_keys: the model's own settings of `generate()`.
    """
    strict = ConfigDict(extra="forbid", strict=True)
    generation = {
        name: setting
        for name, setting in SETTINGS.items()
        if setting.request_limit and (not setting.architecture or name in generation_keys)
    }
    fields: dict[str, Any] = {
        name: _field(setting, limits) for name, setting in (generation | _PIPELINE_SETTINGS).items()
    }
    settings: Any = create_model("Settings", __config__=strict, **fields)
    parameters: Any = create_model("Parameters", __base__=settings, generate_parameters=(settings | None, None))
    inputs = _Document | Annotated[list[_Document], Field(max_length=limits.limit_queue)]
    return create_model(
        "SummaryRequest",
        __config__=strict,
        inputs=(inputs, Field(description="A document, or a list of them")),
        parameters=(parameters | None, None),
        options=(dict[str, Any] | None, Field(None, description="Without effect")),
    )


def read_settings(parameters: BaseModel | None) -> dict[str, Any]:
    """The settings of the pipeline in a request's parameters, without those that are null or the default."""
    settings = parameters.model_dump(exclude_none=True) if parameters else {}
    nested = settings.pop("generate_parameters", {})
    if twice := settings.keys() & nested.keys():
        raise ValueError(f"`{min(twice)}` is set both in `generate_parameters` and beside it: set it once")
    settings |= nested
    # equal settings are decoded together, and all other values mean the default
    if settings.get("truncation") != "do_not_truncate":
        settings.pop("truncation", None)
    return settings


def _whole(value: Any) -> Any:
    """The integer for 5.0, as clients whose language has one type of number write 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _field(setting: Setting, limits: Limits) -> tuple[Any, Any]:
    """Type and constraints of a setting; null means unset."""
    bounds: dict[str, Any] = {}
    value_type = Annotated[int, BeforeValidator(_whole)] if setting.type is int else setting.type
    if setting.type in (int, float):
        allowed = request_range(setting, limits)
        bounds = {"gt" if allowed.above else "ge": allowed.least, "le": allowed.most}
    if setting.type is float:
        bounds["allow_inf_nan"] = False
    return value_type | None, Field(None, description=setting.help or None, **bounds)
