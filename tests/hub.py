"""A Hugging Face Hub for tests, in memory: the part that `push_to_hub` and `from_pretrained("org/name")` use.

Every file is declared "regular" before its upload, so its contents travel inside the commit: no LFS, no Xet service.
"""

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

USER = "tester"
REPOSITORY = r"/api/(?P<kind>model|dataset)s/(?P<name>[^/]+/[^/]+)"


@dataclass
class Reply:
    """One answer: JSON unless `body` is bytes."""

    body: bytes | dict | list
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class NotFound(Exception):
    """Carries the Hub's name for what is missing, which its client converts to the matching exception.

    With the commit that lacks a file, the client remembers that it does.
    """

    def __init__(self, name: str, **headers: str):
        super().__init__(name)
        self.headers = headers


@dataclass
class Repository:
    """Commits in order: (hash, {path: contents})."""

    commits: list[tuple[str, dict[str, bytes]]]

    def at(self, revision: str) -> tuple[str, dict[str, bytes]]:
        for sha, files in reversed(self.commits):
            if revision in ("main", sha):
                return sha, files
        raise NotFound("RevisionNotFound")


class LocalHub:
    """Context manager: serves on a free local port between `with` and its end.

    Attributes:
        endpoint: its URL, once entered.
        unknown_requests: what was asked and is not served here, as "METHOD /path"; a test should find it empty.
    """

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.unknown_requests: list[str] = []
        self.lock = threading.Lock()
        self.routes = [
            (r"/api/whoami-v2", self.whoami),
            (r"/api/validate-yaml", self.validate_yaml),
            (r"/api/repos/create", self.create),
            (REPOSITORY + r"(/revision/(?P<revision>[^/]+))?", self.info),
            (REPOSITORY + r"/preupload/[^/]+", self.preupload),
            (REPOSITORY + r"/commit/(?P<revision>[^/]+)", self.commit),
            (REPOSITORY + r"/tree/(?P<revision>[^/]+)(/(?P<folder>.+))?", self.tree),
            (REPOSITORY + r"/paths-info/(?P<revision>[^/]+)", self.paths_info),
            (r"/((?P<kind>dataset)s/)?(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)", self.resolve),
        ]

    def __enter__(self) -> "LocalHub":
        handler = type("LocalHubHandler", (Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def environment(self, home: Path) -> dict[str, str]:
        """Variables that point a new process at this Hub; read at import, so they would do nothing in this one."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": "hf_anything",
        }

    def files(self, name: str, kind: str = "model") -> dict[str, bytes]:
        """Contents of the repository's newest commit, by path."""
        return self.repositories[kind, name].at("main")[1]

    def publish(self, name: str, folder: Path, kind: str = "model") -> None:
        """Makes a repository of a folder's files, without a client."""
        files = {}
        for path in folder.rglob("*"):
            if path.is_file():
                files[str(path.relative_to(folder))] = path.read_bytes()
        self.repositories[kind, name] = Repository([(hashlib.sha1(name.encode()).hexdigest(), files)])

    def answer(self, method: str, path: str, body: bytes) -> Reply:
        for pattern, route in self.routes:
            match = re.fullmatch(pattern, path)
            if match is not None:
                with self.lock:
                    return route(body, **match.groupdict())
        self.unknown_requests.append(f"{method} {path}")
        raise NotFound("NotImplemented")

    def find(self, kind: str | None, name: str) -> Repository:
        try:
            return self.repositories[kind or "model", name]
        except KeyError:
            raise NotFound("RepoNotFound") from None

    def whoami(self, body: bytes) -> Reply:
        return Reply({"type": "user", "name": USER, "orgs": [], "auth": {"accessToken": {"role": "write"}}})

    def validate_yaml(self, body: bytes) -> Reply:
        return Reply({"errors": [], "warnings": []})

    def create(self, body: bytes) -> Reply:
        request = json.loads(body)
        kind = request.get("type") or "model"
        owner = request.get("organization") or USER
        name = f"{owner}/{request['name']}"
        folder = "" if kind == "model" else f"{kind}s/"
        url = f"{self.endpoint}/{folder}{name}"
        if (kind, name) in self.repositories:
            return Reply({"error": "already there", "url": url}, status=409)
        self.repositories[kind, name] = Repository([(hashlib.sha1(name.encode()).hexdigest(), {})])
        return Reply({"url": url, "name": name, "id": name})

    def info(self, body: bytes, kind: str, name: str, revision: str | None) -> Reply:
        sha, files = self.find(kind, name).at(revision or "main")
        siblings = [{"rfilename": path} for path in files]
        return Reply({"_id": "0", "id": name, "sha": sha, "private": False, "tags": [], "siblings": siblings})

    def preupload(self, body: bytes, kind: str, name: str) -> Reply:
        paths = [entry["path"] for entry in json.loads(body)["files"]]
        return Reply({"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]})

    def commit(self, body: bytes, kind: str, name: str, revision: str) -> Reply:
        repository = self.find(kind, name)
        parent, files = repository.at(revision)
        files = dict(files)
        for line in body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "deletedFile":
                files.pop(value["path"], None)
        sha = hashlib.sha1(parent.encode() + body).hexdigest()
        repository.commits.append((sha, files))
        return Reply({"success": True, "commitOid": sha, "commitUrl": f"{self.endpoint}/{name}/commit/{sha}"})

    def tree(self, body: bytes, kind: str, name: str, revision: str, folder: str | None) -> Reply:
        _, files = self.find(kind, name).at(revision)
        paths = list(files)
        if folder is not None:
            paths = [path for path in files if path.startswith(f"{folder}/")]
            if not paths:
                raise NotFound("EntryNotFound")
        return Reply([entry(path, files) for path in paths])

    def paths_info(self, body: bytes, kind: str, name: str, revision: str) -> Reply:
        _, files = self.find(kind, name).at(revision)
        requested_paths = parse_qs(body.decode())["paths"]
        return Reply([entry(path, files) for path in requested_paths if path in files])

    def resolve(self, body: bytes, kind: str | None, name: str, revision: str, path: str) -> Reply:
        sha, files = self.find(kind, name).at(revision)
        if path not in files:
            raise NotFound("EntryNotFound", **{"X-Repo-Commit": sha})
        object_id = entry(path, files)["oid"]
        return Reply(files[path], headers={"X-Repo-Commit": sha, "ETag": f'"{object_id}"'})


def entry(path: str, files: dict[str, bytes]) -> dict[str, str | int]:
    return {"type": "file", "path": path, "oid": hashlib.sha1(files[path]).hexdigest(), "size": len(files[path])}


class Handler(BaseHTTPRequestHandler):
    """Turns requests into `LocalHub.answer` and its replies into HTTP."""

    protocol_version = "HTTP/1.1"
    hub: LocalHub

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            reply = self.hub.answer(self.command, unquote(urlsplit(self.path).path), body)
        except NotFound as missing:
            headers = {"X-Error-Code": str(missing), **missing.headers}
            reply = Reply({"error": str(missing)}, status=404, headers=headers)
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for header, value in {**reply.headers, "Content-Length": str(len(content))}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = handle_request

    def log_message(self, *_: object) -> None:
        """Writes nothing, as the output is that of the tests."""
