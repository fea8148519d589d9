"""Parsing of request bodies, with one document and its settings, and refusals."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

from hf_summ.common.messages import error_line, nearest
from hf_summ.common.records import parse_json
from hf_summ.models.text_documents import readable
from hf_summ.serving.formats import JSON
from hf_summ.serving.settings import Limits, read_settings

_KEYS = ("inputs", "parameters")


class Refusal(Exception):
    """A refused request.

    Attributes:
        status: the HTTP status.
        headers: additional headers of the response.
    """

    def __init__(self, status: int, message: str, **headers: str):
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self):
        """Starlette's response: `{"error": message}`."""
        from starlette.responses import Response

        return Response(in_json({"error": str(self)}), self.status, self.headers, JSON)


def in_json(value: Any) -> bytes:
    """The value in JSON; lone surrogates, which a quoted value may contain, are replaced."""
    return readable(json.dumps(value, ensure_ascii=False)).encode()


def unavailable(message: str, seconds: float) -> Refusal:
    """The refusal of a request that may succeed after this many seconds."""
    # a kept-alive connection could time out just as the client retries
    return Refusal(503, message, Retry_After=str(min(max(round(seconds), 1), 60)), Connection="close")


@dataclass(frozen=True)
class SummaryRequest:
    """A document to summarize.

    Attributes:
        document: the text, without lone surrogates.
        settings: settings of the pipeline; missing ones fall back to its own.
        return_details: whether the response includes `details`.
    """

    document: str
    settings: dict[str, Any]
    return_details: bool


def read_request(body: bytes, limits: Limits, generation_keys: Collection[str] = ()) -> SummaryRequest:
    """The request that a body describes in Hugging Face's schema: `{"inputs": …, "parameters": {…}}`.

    Args:
        generation_keys: see `read_settings`.

    Raises:
        Refusal: 400 if the body is not JSON, 422 if it is JSON but not a valid request.
    """
    content = _parsed(body)
    try:
        if not isinstance(content, dict):
            raise ValueError(f"the body must be an object, but is {type(content).__name__}: {content!r:.80}")
        for name in content:
            if name not in _KEYS:
                raise ValueError(
                    f"unknown key '{name:.80}'; the keys are {', '.join(_KEYS)}{nearest(name[:80], _KEYS)}"
                )
        document = content.get("inputs")
        if not isinstance(document, str):
            raise ValueError(f"`inputs` must be a string, but is {type(document).__name__}: {document!r:.80}")
        settings = read_settings(content.get("parameters"), limits, generation_keys)
    except ValueError as error:
        raise Refusal(422, error_line(error)) from error
    details = settings.pop("return_details", False)
    return SummaryRequest(readable(document), settings, details)


def _parsed(body: bytes) -> Any:
    try:
        return parse_json(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"not UTF-8 ({error.reason} at byte {error.start})"
    except JSONDecodeError as error:
        message = f"not JSON ({error})"
    except ValueError as error:
        message = error_line(error)
    raise Refusal(400, f"the body cannot be read: {message}")
