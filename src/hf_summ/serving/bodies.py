"""Bodies of requests: JSON, a text, or Turtle, all in UTF-8."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from hf_summ.common.messages import one_line
from hf_summ.serving.rdf import TURTLE, read_contexts
from hf_summ.serving.schema import SummaryRequest

TEXT = "text/plain"
# for a client that has disconnected; only the metrics show it
DISCONNECTED = 499, "the client has disconnected"
# problems of a request that are described; a list of other values than texts has one for each
_DESCRIBED = 5
# bytes of the longest character in UTF-8
_LONGEST_CHARACTER = 4


@dataclass
class ParsedRequest:
    """The content of a request.

    Args:
        documents: the texts to summarize.
        settings: settings of the pipeline.
        uris: of documents in Turtle, their URIs.
    """

    documents: list[str]
    settings: dict[str, Any]
    uris: Sequence[str] = ()


def media_type_of(request: Request) -> str:
    """The type in `Content-Type`, without its parameters; blank if there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, limit_characters: int) -> bytes:
    """The body of a request.

    Raises:
        HTTPException: 413 if so many bytes must exceed the limit, 499 if the client disconnects.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LONGEST_CHARACTER * limit_characters:
                raise _too_long(limit_characters)
    except ClientDisconnect:
        raise HTTPException(*DISCONNECTED) from None
    return bytes(body)


def parse_request(body: bytes, media_type: str, limit_characters: int, url: str) -> ParsedRequest:
    """Parse a body: a text or Turtle if that is its type, and otherwise JSON, which curl sends as the type of a form.

    Args:
        url: of the request, to which relative URIs in Turtle refer.

    Raises:
        HTTPException: 413 if it exceeds the limit, 422 if it is not UTF-8 or cannot be parsed.
    """
    uris: Sequence[str] = ()
    try:
        # editors on Windows begin files with a byte-order mark
        text = body.decode("utf-8-sig")
        if len(text) > limit_characters:
            raise _too_long(limit_characters)
        if media_type == TURTLE:
            contexts = read_contexts(text, url)
            uris = list(contexts)
            content = SummaryRequest(inputs=list(contexts.values()))
        elif media_type == TEXT:
            content = SummaryRequest(inputs=text)
        else:
            content = SummaryRequest.model_validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        descriptions = [_describe(problem) for problem in problems[:_DESCRIBED]]
        if len(problems) > _DESCRIBED:
            descriptions.append(f"and {len(problems) - _DESCRIBED} more")
        raise HTTPException(422, "; ".join(descriptions)) from None
    except ValueError as error:
        raise HTTPException(422, f"the body cannot be read: {one_line(error)}") from None
    return ParsedRequest(content.documents, content.settings(), uris)


def _too_long(limit_characters: int) -> HTTPException:
    return HTTPException(413, f"the body has more than {limit_characters} characters: shorten it")


def _describe(problem: Any) -> str:
    """The location of one of pydantic's problems, and its message."""
    location = ".".join(map(str, problem["loc"]))
    return f"`{location}`: {problem['msg']}" if location else problem["msg"]
