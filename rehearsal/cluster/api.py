"""Ask the servers of a cluster over HTTPS: whether they are well, and the few objects that a cluster starts with.

The full client is lightkube; this one knows nothing of Kubernetes and is there before the API server is.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 10.0
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    text: str


class Api:
    """Talks to the servers on loopback as the one whom a certificate names."""

    def __init__(self, authority: Path, certificate: Path, key: Path) -> None:
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(certificate, key)

    def ask(self, port: int, path: str, *, method: str = "GET", body: Mapping[str, object] | None = None) -> Answer:
        """Send one request. Raises OSError or http.client.HTTPException when no server answers."""
        # No proxy of the environment takes part: http.client knows none.
        connection = http.client.HTTPSConnection(_LOOPBACK, port, timeout=_TIMEOUT_S, context=self._context)
        try:
            content = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, body=content, headers={"Content-Type": "application/json"})
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(errors="replace"))
        finally:
            connection.close()

    def why_unwell(self, port: int, path: str) -> str | None:
        """Return None when a health endpoint answers 200, else what it says instead."""
        try:
            answer = self.ask(port, path)
        except (OSError, http.client.HTTPException) as error:
            return f"{path} on port {port}: {error}"
        if answer.status == http.HTTPStatus.OK:
            return None
        said = [line for line in answer.text.splitlines() if not line.startswith("[+]")]
        return f"{path} on port {port}: {answer.status} {' '.join(said)[:300]}"
