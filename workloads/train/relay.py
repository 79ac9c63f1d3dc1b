"""The way from the ranks to the driver and back: one JSON object a line over TCP, each answered with whether the run shall stop.

Ray's own way, printing in a worker, puts a prefix before each line, may drop repeated ones, and loses the last when the driver ends;
an actor would be one more process. Ray's nodes may speak to each other on every port anyway.
"""

import hmac
import json
import queue
import secrets
import socket
import socketserver
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

Message: TypeAlias = Mapping[str, Any]
CONNECT_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a driver listens, and the key that it asks for."""

    host: str
    port: int
    key: str = field(repr=False)


class Relay:
    """The driver's end: messages in the order in which they came, from all ranks."""

    def __init__(self, host: str) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._stop = threading.Event()
        key, take, stops = secrets.token_hex(16), self._messages.put, self._stop.is_set

        class Connection(socketserver.StreamRequestHandler):
            """One rank; whoever does not know the key is not listened to."""

            def handle(self) -> None:
                if not hmac.compare_digest(self.rfile.readline().strip(), key.encode()):
                    return
                for line in self.rfile:
                    take(cast(Message, json.loads(line)))
                    self.wfile.write(b"stop\n" if stops() else b"go\n")

        self._server = _Server((host, 0), Connection)
        self.address = Address(host=host, port=self._server.server_address[1], key=key)
        threading.Thread(target=self._server.serve_forever, name="relay", daemon=True).start()

    def take(self, seconds: float) -> list[Message]:
        """Return the messages that are there; wait for one for `seconds` at most."""
        found: list[Message] = []
        try:
            found.append(self._messages.get(timeout=seconds) if seconds else self._messages.get_nowait())
            while True:
                found.append(self._messages.get_nowait())
        except queue.Empty:
            return found

    def stop(self) -> None:
        """Ask the run to stop: the answer to the next message says so."""
        self._stop.set()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


class RelayClient:
    """A rank's end.

    Raises:
        OSError: the driver is gone.
    """

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection((address.host, address.port), timeout=CONNECT_SECONDS)
        self._answers = self._socket.makefile("rb")
        self._socket.sendall(address.key.encode() + b"\n")

    def put(self, message: Message) -> bool:
        """Send a message; return whether the run shall stop. The driver has the message when this returns."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        answer = self._answers.readline()
        if not answer:
            raise ConnectionError("the driver of this run does not answer any more")
        return answer == b"stop\n"

    def close(self) -> None:
        """Leave the driver."""
        self._answers.close()
        self._socket.close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
