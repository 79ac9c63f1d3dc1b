"""A Hugging Face Hub on loopback: one model, counted requests, and what goes wrong when asked to."""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "someone/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What is served, and what was asked for: `METHOD path` by count."""

    files: Mapping[str, bytes]
    url: str = ""
    token: str | None = None
    """The token that may read the model; None: it is open."""
    gated: bool = True
    busy: Counter[str] = field(default_factory=Counter[str])
    """How often a request whose path ends so is answered with 429."""
    drops: Counter[str] = field(default_factory=Counter[str])
    """How often the connection is closed in the middle of a file."""
    gone_after_listing: bool = False
    """Whether every connection for a file is closed without a word."""
    asked: Counter[str] = field(default_factory=Counter[str])
    tokens: set[str | None] = field(default_factory=set[str | None])

    def downloads(self, name: str) -> int:
        return self.asked[f"GET /{MODEL}/resolve/{COMMIT}/{name}"]


@contextmanager
def serving(files: Mapping[str, bytes]) -> Generator[Hub]:
    hub = Hub(files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            hub.asked[f"{self.command} {path}"] += 1
            said = self.headers.get("Authorization")
            hub.tokens.add(said)
            ending = path.rpartition("/")[2]
            if hub.gone_after_listing and "/resolve/" in path:
                self.close_connection = True
                self.connection.close()
            elif hub.busy[ending] > 0:
                hub.busy[ending] -= 1
                self._send(429, b"{}", {"Retry-After": "0"})
            elif hub.token is not None and said != f"Bearer {hub.token}":
                code = "GatedRepo" if hub.gated else "RepoNotFound"
                self._send(401 if said is None or not hub.gated else 403, b"{}", {"X-Error-Code": code})
            elif path == f"/api/models/{MODEL}/revision/main":
                siblings = [{"rfilename": name} for name in hub.files]
                self._send(200, json.dumps({"id": MODEL, "sha": COMMIT, "siblings": siblings}).encode())
            elif path == f"/api/models/{MODEL}/tree/{COMMIT}":
                tree = [
                    {"type": "file", "path": name, "size": len(content), "oid": _tag(content)}
                    for name, content in hub.files.items()
                ]
                self._send(200, json.dumps(tree).encode())
            elif path.startswith(f"/{MODEL}/resolve/{COMMIT}/") and ending in hub.files:
                self._file(ending)
            elif path.startswith(f"/api/models/{MODEL}/revision/"):
                self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            else:
                self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        def _file(self, name: str) -> None:
            content, first, code = hub.files[name], 0, 200
            headers = {"ETag": f'"{_tag(content)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            if (asked := self.headers.get("Range")) is not None:
                first, code = int(asked.removeprefix("bytes=").partition("-")[0]), 206
                headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            if self.command == "GET" and hub.drops[name] > 0:
                hub.drops[name] -= 1
                self._send(code, content[first : first + 10], headers, length=len(content) - first)
                self.close_connection = True
                self.connection.close()
                return
            self._send(code, content[first:], headers)

        def _send(
            self, code: int, body: bytes, headers: Mapping[str, str] | None = None, length: int | None = None
        ) -> None:
            self.send_response(code)
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)
                self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _tag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()  # noqa: S324 -- an ETag
