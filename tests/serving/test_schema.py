"""The schema agrees with what the service takes and answers, and messages name what does not."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from hf_summ.serving import create_app
from hf_summ.serving.schema import SummaryRequest
from tests.serving.conftest import DOCUMENT, served


def settings(**parameters):
    return SummaryRequest(inputs="", parameters=parameters).settings()


def test_nested_and_flat_settings_are_one():
    assert SummaryRequest(inputs="").settings() == settings(num_beams=None) == {}
    nested = settings(generate_parameters={"num_beams": 2, "length_penalty": 1}, do_sample=True, num_beams=3)
    assert nested == settings(num_beams=2, length_penalty=1.0, do_sample=True)
    # `generate()` would prefer the limits of new tokens
    nested = settings(generate_parameters={"max_length": 9, "min_length": 2}, max_new_tokens=5, min_new_tokens=3)
    assert nested == {"max_length": 9, "min_length": 2}
    both = {"max_length": 9, "max_new_tokens": 7}
    assert settings(generate_parameters=both, max_length=4, min_length=2) == {**both, "min_length": 2}
    assert settings(truncation="only_first") == {}
    assert settings(truncation="do_not_truncate") == {"truncation": "do_not_truncate"}


# a body, or parameters beside a document, and how the message begins
CASES_OF_WRONG_REQUESTS = [
    ({"inputs": 3}, "`inputs.str`: Input should be a valid string; `inputs.list[str]`: Input should be a valid"),
    ({}, "`inputs`: Field required"),
    ([1], "Input should be an object"),
    ({"inputs": "x", "input": "y"}, "`input`: Extra inputs are not permitted"),
    ({"num_beams": 0}, "`parameters.num_beams`: Input should be greater than or equal to 1"),
    ({"num_beams": 2.5}, "`parameters.num_beams`: Input should be a valid integer"),
    ({"length_penalty": float("nan")}, "`parameters.length_penalty`: Input should be a finite number"),
    ({"max_time": 0}, "`parameters.max_time`: Input should be greater than 0"),
    ({"long_documents": "window"}, "`parameters.long_documents`: Input should be 'truncate', 'extract' or"),
    # settings of generate() that would load code or read files
    ({"custom_generate": "someone/code"}, "`parameters.custom_generate`: Extra inputs are not permitted"),
    (
        {"generate_parameters": {"assistant_model": "x"}},
        "`parameters.generate_parameters.assistant_model`: Extra inputs are not permitted",
    ),
    # only the model can tell these
    ({"replace_unk": True}, "`replace_unk`: the model is a gdlf, which does not support it"),
    ({"coverage_penalty": 1}, "`coverage_penalty` is 1.0, which needs a model that copies: set it to 0"),
    ({"num_beams": 700}, "700 beams × 6 new tokens are 4200, but the service allows at most 4096: lower"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("body", "message"), CASES_OF_WRONG_REQUESTS)
def test_what_is_wrong_is_named(client, body, message):
    is_body = isinstance(body, list) or not body or "inputs" in body
    if not is_body:
        body = {"inputs": DOCUMENT, "parameters": body}
    response = client.post("/", content=json.dumps(body))
    assert response.status_code == 422
    assert response.json()["error"].startswith(message)


def test_the_schema_is_of_what_is_taken(client):
    description = client.get("/openapi.json").json()
    post = description["paths"]["/"]["post"]
    reference = post["requestBody"]["content"]["application/json"]["schema"]
    request = jsonschema.Draft202012Validator({**reference, "components": description["components"]})
    settings = description["components"]["schemas"]["Parameters"]["properties"]
    assert {"num_beams", "gnmt_length_penalty", "truncation", "generate_parameters", "max_time"} <= settings.keys()
    assert "assistant_model" not in settings
    for name, setting in settings.items():
        schema = setting["anyOf"][0]
        maximum = schema.get("maximum")
        if maximum is None:
            continue
        if "minimum" in schema:
            below = schema["minimum"] - 1
        else:
            below = schema["exclusiveMinimum"]
        for value in (below, maximum + 1):
            body = {"inputs": "", "parameters": {name: value}}
            assert not request.is_valid(body)
            assert client.post("/", json=body).status_code == 422
        assert request.is_valid({"inputs": "", "parameters": {name: maximum}})


def test_a_key_is_described(summarizer, tmp_path):
    (tmp_path / "key").write_text("a key")
    for file in ("", str(tmp_path / "key")):
        with served(lambda: summarizer, api_key_file=file) as running:
            paths = create_app(running.service).openapi()["paths"]
        assert paths["/"]["post"].get("security") == paths["/metrics"]["get"].get("security")
        assert paths["/"]["post"].get("security") == ([{"HTTPBearer": []}] if file else None)


@pytest.mark.thorough
def test_schemathesis_finds_no_difference(address, tmp_path):
    """Requests of any kind that the schema describes, and those that it does not."""
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}/openapi.json"]
    command += ["--checks", checks, "--max-examples", "60", "--seed", "0", "--no-color"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
