"""The forward proxy that leads the names of head Services to Ray heads on this machine, for the KubeRay operator."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import urlsplit

from rehearsal.containers.ray_command import LOOPBACK

Lookup = Callable[[str, int], int | None]
"""Gives (host, port) of a request the local port that serves it, None when no head has that name."""

_TIMEOUT_S = 60.0
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "te", "upgrade", "host"})


class ServiceProxy:
    """An HTTP proxy on loopback, for plain HTTP alone, that reaches nothing but what `lookup` gives."""

    def __init__(self, lookup: Lookup) -> None:
        self._server = _Server((LOOPBACK, 0), _Handler)
        self._server.lookup = lookup
        self.address = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="service-proxy", daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    lookup: Lookup


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        asked = urlsplit(self.path)
        host, port = asked.hostname or "", asked.port or 80
        local = cast(_Server, self.server).lookup(host, port)
        if local is None:
            # As when the Service has no endpoints: the operator tries again.
            self.send_error(http.HTTPStatus.BAD_GATEWAY, f"no Ray head serves {host}:{port}")
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        connection = http.client.HTTPConnection(LOOPBACK, local, timeout=_TIMEOUT_S)
        try:
            target = f"{asked.path or '/'}?{asked.query}" if asked.query else asked.path or "/"
            connection.request(self.command, target, body=body, headers={**headers, "Host": f"{host}:{port}"})
            answer = connection.getresponse()
            data = answer.read()
        except OSError as error:
            self.send_error(http.HTTPStatus.BAD_GATEWAY, f"{host}:{port}: {error}")
            return
        finally:
            connection.close()
        self.send_response(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP and name.lower() not in ("content-length", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _forward  # noqa: N815 -- the names that the base class calls

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the operator's own log names each request."""
