"""The local AWS as a server on loopback."""

import json
import logging
import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LOOPBACK = "127.0.0.1"


class LocalAws:
    """moto's server with the rehearsal's additions, in a thread of this process.

    Its state lives as long as the process does. With `state_dir`, the file endpoint.json there tells other processes where it is.

    Raises:
        OSError: the port is in use; the text names it.
    """

    def __init__(self, *, port: int = 0, state_dir: Path | None = None) -> None:
        _refuse_taken(port)
        # Without this, moto has no AmazonEKSClusterPolicy to attach. It reads the variable when IAM is first used.
        os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
        # Nobody asks for images here, and making moto's takes longer than everything else it does at first use.
        os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        # Imported here: moto takes seconds to import, and a client of this module may only want its name.
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler
        from werkzeug.serving import make_server

        from .extensions import install
        from .honest import honest_app

        install()
        # One line a request would drown what the engine prints.
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        application = DomainDispatcherApplication(honest_app)
        self._server = make_server(LOOPBACK, port, application, threaded=True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="local-aws", daemon=True)
        self._thread.start()
        self.endpoint = f"http://{LOOPBACK}:{self._server.server_port}"
        self._note = None if state_dir is None else state_dir / "endpoint.json"
        if self._note is not None:
            self._note.parent.mkdir(parents=True, exist_ok=True)
            self._note.write_text(json.dumps({"endpoint": self.endpoint, "pid": os.getpid()}) + "\n", encoding="utf-8")

    def stop(self) -> None:
        """Stop serving and take the note of the endpoint away."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self._note is not None:
            self._note.unlink(missing_ok=True)


@contextmanager
def serving(*, port: int = 0, state_dir: Path | None = None) -> Generator[LocalAws]:
    """Serve for as long as the block runs."""
    local = LocalAws(port=port, state_dir=state_dir)
    try:
        yield local
    finally:
        local.stop()


def _refuse_taken(port: int) -> None:
    if port == 0:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise OSError(
                f"--port: {port} is in use ({error.strerror}); choose another, or 0 for a free one"
            ) from error
