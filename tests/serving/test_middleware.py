"""Who may call the service, and what it logs of each request."""

import json
import re

import httpx
import pytest

from tests.serving.conftest import DOCUMENT, served


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/x-www-form-urlencoded", None])
def test_bodies_are_json(client, kind):
    body = json.dumps({"inputs": DOCUMENT})
    assert client.post("/", content=body, headers={"Content-Type": kind} if kind else {}).status_code == 200
    refused = client.post("/", content=body, headers={"Content-Type": "text/plain"})
    assert (refused.status_code, "send it with `Content-Type: application/json`" in refused.text) == (415, True)


def test_pages_of_other_sites_compute_nothing(client, address):
    def status(**headers) -> int:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post("/", json={"inputs": DOCUMENT}, headers=headers).status_code

    assert status(Sec_Fetch_Site="same-origin", Origin="https://where.a.proxy.is") == 200
    assert status(Sec_Fetch_Site="none") == status(Origin=address) == 200
    assert status(Sec_Fetch_Site="cross-site") == status(Sec_Fetch_Site="same-site", Origin=address) == 403
    assert status(Origin="https://evil.example") == status(Origin="null") == 403
    assert client.get("/info", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_only_names_of_the_service_are_answered(summarizer):
    with served(lambda: summarizer, allowed_hosts="localhost, Summaries.example") as running:
        for host in ("localhost:1", "127.0.0.1", "[::1]:80", "summaries.example", "SUMMARIES.EXAMPLE:443"):
            assert httpx.get(running.address, headers={"Host": host}).status_code == 200
        for host in ("evil.example", "localhost.evil.example:80", "127.0.0.1.evil", "[::1", ":80"):
            refused = httpx.get(running.address, headers={"Host": host})
            assert (refused.status_code, "name it with --allowed_hosts" in refused.text) == (403, True)


def test_a_key_is_asked_for(summarizer, tmp_path):
    file = tmp_path / "key"
    file.write_text("a key\n")
    with (
        served(lambda: summarizer, api_key_file=str(file)) as running,
        httpx.Client(base_url=running.address) as client,
    ):
        for key in (None, "Bearer a kez", "Basic a key", "Bearer", "a key"):
            headers = {} if key is None else {"Authorization": key}
            refused = client.post("/", json={"inputs": DOCUMENT}, headers=headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            problem = "the API key is wrong" if key == "Bearer a kez" else "an API key is needed"
            assert refused.json()["error"] == f"{problem}: send `Authorization: Bearer KEY`"
            assert client.get("/metrics", headers=headers).status_code == 401
        given = {"Authorization": "bearer a key"}
        assert client.post("/", json={"inputs": DOCUMENT}, headers=given).json() == summarizer(DOCUMENT)
        # those of POST alone
        assert 'hf_summ_requests_total{status="401"} 5.0' in client.get("/metrics", headers=given).text.splitlines()
        assert {client.get(path).status_code for path in ("/", "/info", "/health", "/ready")} == {200}
        assert "key" not in client.get("/info").text


def test_a_line_for_each_request_without_texts(client, caplog):
    with caplog.at_level("INFO", "hf_summ.requests"):
        client.post("/?a=b", json={"inputs": DOCUMENT})
        client.get("/none%0a", headers={"X-Forwarded-For": "192.0.2.1"})
    first, second = (record.getMessage() for record in caplog.records if record.name == "hf_summ.requests")
    assert re.fullmatch(r"127\.0\.0\.1 POST / 200 \d+\.\d{3} s", first)
    assert re.fullmatch(r"192\.0\.2\.1 GET /none%0A 404 \d\.\d{3} s", second)
