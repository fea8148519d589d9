"""Bodies of requests: JSON, a text, or Turtle, all in UTF-8."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import HTTPException, Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from hf_summ.common.messages import one_line
from hf_summ.serving.rdf import TURTLE, read_contexts
from hf_summ.serving.schema import SummaryRequest

TEXT = "text/plain"
# The status and the message for a client that has disconnected. Only the metrics show them.
DISCONNECTED = 499, "the client has disconnected"
# The largest number of problems in a message, as a request may have thousands of values of wrong types.
_DESCRIBED = 5
# The number of bytes of the longest character in UTF-8.
_LONGEST_CHARACTER = 4


@dataclass
class ParsedRequest:
    """The content of a request.

    Args:
        documents: the texts to summarize.
        settings: settings of the pipeline.
        uris: the URIs of the documents, if they were in Turtle; otherwise none.
    """

    documents: list[str]
    settings: dict[str, object]
    uris: Sequence[str] = ()


def media_type_of(request: Request) -> str:
    """The type in the header `Content-Type`, without its parameters; blank if there is none."""
    content_type = request.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


async def read_body(request: Request, limit_characters: int) -> bytes:
    """The body of a request.

    Raises:
        HTTPException: 413 if the body has more bytes than any text of `limit_characters` has, 499 if the client
            disconnects.
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
    """Parse the body of a request.

    Args:
        body: the body in UTF-8.
        media_type: the type of a text or of Turtle; any other type stands for JSON, which curl sends as the type of a
            form.
        limit_characters: the largest number of characters of the body.
        url: the URL of the request, to which relative URIs in Turtle refer.

    Raises:
        HTTPException: 413 if the body exceeds the limit, 422 if it is not UTF-8 or cannot be parsed.
    """
    uris: Sequence[str] = ()
    try:
        # This encoding skips the byte-order mark with which editors on Windows begin files.
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
        raise HTTPException(422, _describe(error)) from None
    except ValueError as error:
        raise HTTPException(422, f"the body cannot be read: {one_line(error)}") from None
    return ParsedRequest(content.documents, content.settings(), uris)


def _too_long(limit_characters: int) -> HTTPException:
    """The response to a body that exceeds the limit."""
    return HTTPException(413, f"the body has more than {limit_characters} characters: shorten it")


def _describe(error: ValidationError) -> str:
    """The first problems that pydantic found in a request, each with its location."""
    problems = error.errors(include_url=False, include_input=False)
    descriptions = []
    for problem in problems[:_DESCRIBED]:
        location = ".".join([str(key) for key in problem["loc"]])
        if location:
            descriptions.append(f"`{location}`: {problem['msg']}")
        else:
            descriptions.append(problem["msg"])
    if len(problems) > _DESCRIBED:
        descriptions.append(f"and {len(problems) - _DESCRIBED} more")
    return "; ".join(descriptions)
