"""OpenAPI 3.1 description of the service, generated from the tables of settings and limits."""

import dataclasses
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any

from hf_summ.models.checks import Setting
from hf_summ.serving.formats import FORMATS, JSON
from hf_summ.serving.settings import Limits, asked_settings, request_range

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_KINDS = {int: "integer", float: "number", bool: "boolean"}
_REFUSALS = (400, 401, 403, 406, 408, 413, 415, 422, 500, 503)


def describe(limits: Limits, generation_keys: Collection[str]) -> Schema:
    """The OpenAPI description of a service.

    Args:
        generation_keys: as for `asked_settings`.
    """
    from hf_summ import __version__

    settings = {name: _setting(setting, limits) for name, setting in asked_settings(generation_keys).items()}
    parameters = _object((), **settings, generate_parameters=_object((), **settings))
    request = _object(("inputs",), inputs=_TEXT, parameters=parameters)
    summary = _object(("summary_text",), summary_text=_TEXT, details={"type": "object"})
    answer = {"type": "array", "items": summary, "minItems": 1, "maxItems": 1}
    known = {field.name: {"type": _KINDS.get(field.type, "string")} for field in dataclasses.fields(limits)}
    public = {name: schema for name, schema in known.items() if name.startswith("limit_")}
    facts = {"model_id": {"type": ["string", "null"]}, "task": _TEXT, "state": _TEXT}
    refusals = {status: {JSON: _object(("error",), error=_TEXT)} for status in _REFUSALS}
    post: Schema = {
        "summary": "Summarize a document",
        "requestBody": {"required": True, "content": {JSON: {"schema": request}}},
        "responses": _responses({200: {JSON: answer, **dict.fromkeys(FORMATS, _TEXT)}} | refusals),
    }
    gets: dict[str, tuple[str, Mapping[int, Schema]]] = {
        "/health": ("Whether the process is alive", {200: {"text/plain": _TEXT}}),
        "/ready": ("Whether requests are accepted", {status: {"text/plain": _TEXT} for status in (200, 503)}),
        "/info": ("Model and limits", {200: {JSON: _object((*facts, *public), **facts, **public)}}),
        "/metrics": ("Counters for Prometheus", {200: {"text/plain": _TEXT}}),
    }
    paths: dict[str, dict[str, Schema]] = {
        "/": {"post": post},
        **{path: {"get": {"summary": what, "responses": _responses(by)}} for path, (what, by) in gets.items()},
    }
    description: Schema = {"openapi": "3.1.0", "info": {"title": "hf-summ", "version": __version__}, "paths": paths}
    if limits.api_key_file:
        metrics = paths["/metrics"]["get"]
        metrics["responses"] |= _responses({401: refusals[401]})
        post["security"] = metrics["security"] = [{"key": []}]
        description["components"] = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}
    return description


def _setting(setting: Setting, limits: Limits) -> Schema:
    """Schema of a setting; null means unset."""
    described = {"description": setting.help} if setting.help else {}
    if setting.choices:
        return {"enum": [*setting.choices, None], **described}
    bounds = {}
    if setting.kind is not bool:
        allowed = request_range(setting, limits)
        bounds = {"minimum": allowed.least, "maximum": allowed.most}
    return {"type": [_KINDS[setting.kind], "null"], **bounds, **described}


def _object(required: Collection[str], **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _responses(schemas: Mapping[int, Mapping[str, Schema]]) -> Schema:
    """OpenAPI responses by status."""
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {media_type: {"schema": schema} for media_type, schema in by_type.items()},
        }
        for status, by_type in schemas.items()
    }
