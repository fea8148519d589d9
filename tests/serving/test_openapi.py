"""The description agrees with what the service takes and answers."""

import json

import jsonschema

from hf_summ.serving import Limits
from hf_summ.serving.openapi import describe
from hf_summ.serving.requests import Refusal, read_request
from tests.serving.conftest import DOCUMENT


def test_the_description_is_of_what_is_taken(client, summarizer):
    description = client.get("/openapi.json").json()
    post = description["paths"]["/"]["post"]
    request = post["requestBody"]["content"]["application/json"]["schema"]
    settings = request["properties"]["parameters"]["properties"]
    assert {"num_beams", "gnmt_length_penalty", "truncation", "generate_parameters"} <= settings.keys()
    assert "replace_unk" not in settings

    def refused(**parameters) -> bool:
        body = json.dumps({"inputs": DOCUMENT, "parameters": parameters}).encode()
        try:
            read_request(body, Limits(), summarizer.model.generation_keys)
        except Refusal:
            return True
        return False

    for name, schema in settings.items():
        if name == "generate_parameters":
            continue
        inside = [*schema.get("enum", ()), schema.get("minimum"), schema.get("maximum")]
        outside = [schema["minimum"] - 1, schema["maximum"] + 1] if "minimum" in schema else ["none", 1]
        assert not any(refused(**{name: value}) for value in inside)
        assert all(refused(**{name: value}) for value in outside)
        for value in (*inside, *outside):
            valid = jsonschema.Draft202012Validator(request).is_valid({"inputs": "", "parameters": {name: value}})
            assert valid == (value in inside)
    answers = {
        (path, status): client.request(method, path, content=body)
        for method, path, body, status in (
            ("POST", "/", json.dumps({"inputs": DOCUMENT}), "200"),
            ("POST", "/", "{", "400"),
            ("GET", "/info", "", "200"),
        )
    }
    for (path, status), answer in answers.items():
        (method,) = description["paths"][path].values()
        assert str(answer.status_code) == status
        jsonschema.validate(answer.json(), method["responses"][status]["content"]["application/json"]["schema"])


def test_a_key_is_described(tmp_path):
    for file in ("", str(tmp_path)):
        description = describe(Limits(api_key_file=file), ())
        post, metrics = description["paths"]["/"]["post"], description["paths"]["/metrics"]["get"]
        assert post.get("security") == metrics.get("security") == ([{"key": []}] if file else None)
        assert ("401" in metrics["responses"]) == bool(file)
    assert description["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
