"""The schema of requests and responses.

The schema's settings are an allow-list: other settings load code, read files or exhaust memory.
"""

from typing import Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from hf_summ.models.checks import Setting
from hf_summ.runtimes.settings import SETTINGS, overriding_settings
from hf_summ.serving.settings import request_range

# Settings of the pipeline itself. The settings of the search for a summary are in `SETTINGS`.
_PIPELINE_SETTINGS = {
    # These values are those of `TruncationStrategy` of transformers.
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
_NO_FURTHER_FIELDS = ConfigDict(extra="forbid")


# The docstrings of `Summary`, `Problem` and `SummaryRequest` are texts of the schema, which clients read.


class Sentence(TypedDict):
    """The [start, end) characters of a document that are one of its sentences."""

    start: int
    end: int


class Details(TypedDict, total=False):
    """What the pipeline read of a document, as far as the service reads it.

    `cut_tokens` is the number of tokens that were not read. `sentences` has the sentences that were extracted for the
    model and read, if the document was shortened.
    """

    cut_tokens: int
    sentences: list[Sentence]


class SummaryRecord(TypedDict):
    """The pipeline's result for a document."""

    summary_text: str
    details: NotRequired[Details]


class Summary(BaseModel):
    """A summary and, if the request sets `return_details`, what was read and truncated."""

    summary_text: str
    details: dict[str, Any] | None = None


class Problem(BaseModel):
    """Why there is no summary."""

    error: str


def _field(setting: Setting) -> tuple[object, FieldInfo]:
    """The type of a setting and its constraints, for `create_model` of pydantic; null means unset."""
    constraints: dict[str, Any] = {}
    if setting.type in (int, float):
        allowed = request_range(setting)
        if allowed.excludes_least:
            constraints["gt"] = allowed.least
        else:
            constraints["ge"] = allowed.least
        constraints["le"] = allowed.most
    if setting.type is float:
        constraints["allow_inf_nan"] = False
    field = Field(None, description=setting.help or None, **constraints)
    return setting.type | None, field


def _setting_fields() -> dict[str, Any]:
    """A field for each setting that requests may use."""
    fields = {}
    for name, setting in SETTINGS.items():
        if setting.request_limit:
            fields[name] = _field(setting)
    for name, setting in _PIPELINE_SETTINGS.items():
        fields[name] = _field(setting)
    return fields


Settings: Any = create_model("Settings", __config__=_NO_FURTHER_FIELDS, **_setting_fields())
Parameters: Any = create_model(
    "Parameters",
    __base__=Settings,
    generate_parameters=(Settings | None, Field(None, description="The same settings; they take precedence")),
)


class SummaryRequest(BaseModel):
    """A request as Hugging Face's clients send it, `options` of the Inference API included."""

    model_config = _NO_FURTHER_FIELDS

    inputs: str | list[str] = Field(description="A document, or a list of them")
    parameters: Parameters | None = None
    options: dict[str, Any] | None = Field(None, description="Without effect")

    @property
    def documents(self) -> list[str]:
        """The documents, in a list even if there is only one."""
        if isinstance(self.inputs, str):
            return [self.inputs]
        return self.inputs

    def settings(self) -> dict[str, object]:
        """The settings of the pipeline, without those that are null or the default."""
        if self.parameters is None:
            return {}
        given = self.parameters.model_dump(exclude_none=True)
        generate_parameters = given.pop("generate_parameters", {})
        # A limit in `generate_parameters` also replaces the same limit under its other name.
        given.update(overriding_settings(generate_parameters))
        settings = {name: value for name, value in given.items() if value is not None}
        # Documents with equal settings are decoded together. All other values of `truncation` mean the default.
        if settings.get("truncation") != "do_not_truncate":
            settings.pop("truncation", None)
        return settings
