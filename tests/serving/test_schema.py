"""The schema agrees with what the service takes and answers, and messages name what does not."""

import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from hf_summ.serving import Limits, create_app
from hf_summ.serving.schema import read_settings, request_schema
from tests.serving.conftest import DOCUMENT, served


def parameters(summarizer, **values):
    schema = request_schema(Limits(), summarizer.model.generation_keys)
    return schema.model_validate({"inputs": "", "parameters": values}).parameters


def test_nested_and_flat_settings_are_one(summarizer):
    assert read_settings(None) == read_settings(parameters(summarizer, num_beams=None)) == {}
    nested = parameters(summarizer, generate_parameters={"num_beams": 2, "length_penalty": 1}, do_sample=True)
    assert read_settings(nested) == read_settings(
        parameters(summarizer, num_beams=2, length_penalty=1.0, do_sample=True)
    )
    assert read_settings(parameters(summarizer, truncation="only_first")) == {}
    assert read_settings(parameters(summarizer, truncation="do_not_truncate")) == {"truncation": "do_not_truncate"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"inputs": 3}, "`inputs` must be a string or a list of strings, but is 3"),
        ({"inputs": ["x", None]}, "`inputs` must be a string or a list of strings, but is ['x', None]"),
        ({}, "the body must be an object with `inputs`, but is {}"),
        ([1], "the body must be an object with `inputs`, but is [1]"),
        ({"inputs": "x", "input": "y"}, "unknown parameter 'input'; did you mean inputs?"),
        ({"inputs": "x", "parameters": []}, "`parameters` is [], but must be a valid dictionary or object to extract"),
        ({"num_beams": 0}, "`num_beams` is 0, but must be at least 1"),
        ({"max_length": 10**300}, f"`max_length` is 1{'0' * 79}, but must be at most 1024"),
        ({"num_beams": 2.5}, "`num_beams` is 2.5, but must be a valid integer"),
        ({"num_beams": True}, "`num_beams` is True, but must be a valid integer"),
        ({"top_p": "0.5"}, "`top_p` is '0.5', but must be a valid number"),
        ({"do_sample": 1}, "`do_sample` is 1, but must be a valid boolean"),
        ({"long_documents": "window"}, "`long_documents` is 'window', but must be 'truncate', 'extract' or 'windows'"),
        ({"nun_beams": 2}, "unknown parameter 'nun_beams'; did you mean num_beams?"),
        # settings of generate() that would load code, read files or belong to another architecture
        ({"custom_generate": "someone/code"}, "unknown parameter 'custom_generate'"),
        ({"generate_parameters": {"assistant_model": "x"}}, "unknown parameter 'assistant_model'"),
        ({"replace_unk": True}, "unknown parameter 'replace_unk'"),
        (
            {"num_beams": 2, "generate_parameters": {"num_beams": 3}},
            "`num_beams` is set both in `generate_parameters` and ",
        ),
    ],
)
def test_what_is_wrong_is_named(client, body, message):
    is_body = isinstance(body, list) or not body or "inputs" in body
    response = client.post("/", json=body if is_body else {"inputs": DOCUMENT, "parameters": body})
    assert (response.status_code, response.json()["error"][: len(message)]) == (422, message)


def test_the_schema_is_of_what_is_taken(client):
    description = client.get("/openapi.json").json()
    # of its page, relative, as a proxy may serve both below a path of its own
    assert "url: 'openapi.json'" in client.get("/docs").text
    post = description["paths"]["/"]["post"]
    reference = post["requestBody"]["content"]["application/json"]["schema"]
    request = jsonschema.Draft202012Validator({**reference, "components": description["components"]})
    settings = description["components"]["schemas"]["Parameters"]["properties"]
    assert {"num_beams", "gnmt_length_penalty", "truncation", "generate_parameters", "max_time"} <= settings.keys()
    assert "replace_unk" not in settings
    for name, setting in settings.items():
        schema = setting["anyOf"][0]
        bounds = {key: schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum")}
        below = bounds["exclusiveMinimum"] if bounds["minimum"] is None else bounds["minimum"] - 1
        if bounds["maximum"] is not None:
            outside = [below, bounds["maximum"] + 1]
            for value in outside:
                body = {"inputs": "", "parameters": {name: value}}
                assert (request.is_valid(body), client.post("/", json=body).status_code) == (False, 422)
            body = {"inputs": "", "parameters": {name: bounds["maximum"]}}
            assert request.is_valid(body)


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
