"""Who may call the service, and what it logs of each request."""

import gzip
import json
import random
import re
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serving.conftest import DOCUMENT, served


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/x-www-form-urlencoded", None])
def test_bodies_are_json(client, kind):
    body = json.dumps({"inputs": DOCUMENT})
    assert client.post("/", content=body, headers={"Content-Type": kind} if kind else {}).status_code == 200
    refused = client.post("/", content=body, headers={"Content-Type": "text/html"})
    assert (refused.status_code, "must be JSON, text/plain or text/turtle: name it in" in refused.text) == (415, True)


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
    with served(lambda: summarizer, allowed_hosts="localhost, [::1], Summaries.example, *.example.org") as running:
        for host in ("localhost:1", "[::1]:80", "summaries.example", "SUMMARIES.EXAMPLE:443", "a.example.org"):
            assert httpx.get(running.address, headers={"Host": host}).status_code == 200
        for host in ("evil.example", "localhost.evil.example:80", "127.0.0.1", "[::1", ":80"):
            assert httpx.get(running.address, headers={"Host": host}).status_code == 400


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
    with caplog.at_level("INFO", "uvicorn.access"):
        client.post("/", json={"inputs": DOCUMENT})
        client.get("/none%0a", headers={"X-Forwarded-For": "192.0.2.1"})
    first, second = (record.getMessage() for record in caplog.records if record.name == "uvicorn.access")
    assert re.fullmatch(r'127\.0\.0\.1:\d+ - "POST / HTTP/1\.1" 200', first)
    assert second == '192.0.2.1:0 - "GET /none%0A HTTP/1.1" 404'


def test_a_body_that_does_not_end_in_time_is_refused(address):
    with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port)) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        slow.settimeout(30)
        answer = b"".join(iter(lambda: slow.recv(10_000), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body took longer than 0.5 s: send it faster" in answer


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip", "identity"])
def test_compressed_bodies_are_read(client, summarizer, encoding):
    """HarperFast/harper#1438, google/certificate-transparency#1109, mendhak/docker-http-https-echo#31."""
    body = json.dumps({"inputs": DOCUMENT}).encode()
    # of two members, as of two files: urllib3/urllib3#1285, aio-libs/aiohttp#7157
    body = body if encoding == "identity" else gzip.compress(body[:20]) + gzip.compress(body[20:])
    assert client.post("/", content=body, headers={"Content-Encoding": encoding}).json() == summarizer(DOCUMENT)


@pytest.mark.parametrize(
    ("body", "encoding", "status", "message"),
    [
        (b"{}", "br", 415, "`Content-Encoding` is 'br', but must be gzip or identity"),
        (b"{}", "gzip", 400, "the body cannot be read: not a complete gzip (Not a gzipped file"),
        (gzip.compress(b"{}", mtime=0)[:-3], "gzip", 400, "not a complete gzip (Compressed file ended before"),
        (gzip.compress(b"{}", mtime=0) + b"more", "gzip", 400, "not a complete gzip (Not a gzipped file"),
        # as long as is sent, or as long as is read
        (gzip.compress(random.Random(0).randbytes(20_000)), "gzip", 413, "the body has more than 10000 bytes"),
        (gzip.compress(b" " * 10**7), "gzip", 413, "the body has more than 10000 bytes"),
    ],
)
def test_compressed_bodies_are_refused(client, body, encoding, status, message):
    response = client.post("/", content=body, headers={"Content-Encoding": encoding})
    assert (response.status_code, message in response.json()["error"]) == (status, True)
    assert response.headers.get("accept-encoding") == ("gzip" if status == 415 else None)
