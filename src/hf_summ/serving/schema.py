"""The schema of requests and responses.

The settings in it are an allow-list: others load code, read files or exhaust memory.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from hf_summ.models.checks import Setting
from hf_summ.runtimes.settings import SETTINGS
from hf_summ.serving.settings import request_range

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
_NO_FURTHER_FIELDS = ConfigDict(extra="forbid")


class Summary(BaseModel):
    """A summary and, if the request sets `return_details`, what was read and truncated."""

    summary_text: str
    details: dict[str, Any] | None = None


class Problem(BaseModel):
    """Why there is no summary."""

    error: str


def _field(setting: Setting) -> tuple[Any, Any]:
    """Type and constraints of a setting; null means unset."""
    bounds: dict[str, Any] = {}
    if setting.type in (int, float):
        allowed = request_range(setting)
        bounds = {"gt" if allowed.above else "ge": allowed.least, "le": allowed.most}
    if setting.type is float:
        bounds["allow_inf_nan"] = False
    return setting.type | None, Field(None, description=setting.help or None, **bounds)


def _setting_fields() -> dict[str, Any]:
    """A field for each setting that requests may use."""
    fields = {name: _field(setting) for name, setting in SETTINGS.items() if setting.request_limit}
    for name, setting in _PIPELINE_SETTINGS.items():
        fields[name] = _field(setting)
    return fields


Settings: Any = create_model("Settings", __config__=_NO_FURTHER_FIELDS, **_setting_fields())
Parameters: Any = create_model(
    "Parameters",
    __base__=Settings,
    generate_parameters=(Settings | None, Field(None, description="The same; what is set here is used")),
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
        return [self.inputs] if isinstance(self.inputs, str) else self.inputs

    def settings(self) -> dict[str, Any]:
        """The settings of the pipeline, without those that are null or the default."""
        if self.parameters is None:
            return {}
        settings = self.parameters.model_dump(exclude_none=True)
        settings |= settings.pop("generate_parameters", {})
        # equal settings are decoded together, and all other values mean the default
        if settings.get("truncation") != "do_not_truncate":
            settings.pop("truncation", None)
        return settings
