"""Serve the language host protocol: print the port, then answer until the engine ends.

The engine starts it as `pulumi-language-python [FLAG...] ENGINE_ADDRESS`. The variable EFA_RAY_TRAIN_PROGRAM_RUNNER
names the SDK's script that runs a program; the rehearsal sets it.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import grpc

from rehearsal.language_host import RUNNER_VARIABLE
from rehearsal.language_host.children import Children
from rehearsal.language_host.protocol import language_pb2_grpc
from rehearsal.language_host.service import LanguageHost

_MAX_MESSAGE_BYTES = 400 * 1024 * 1024
"""What the engine itself allows, source: sdk/go/common/util/rpcutil in pulumi/pulumi."""


def main() -> int:
    """Serve until the engine closes this process's input or sends a signal; return the exit status."""
    if len(sys.argv) < 2:
        print("pulumi-language-python: no engine address given; the Pulumi engine starts it", file=sys.stderr)
        return 2
    runner = os.environ.get(RUNNER_VARIABLE)
    if not runner or not Path(runner).is_file():
        print(
            f"{RUNNER_VARIABLE}: {runner!r} is not a file; expected pulumi-language-python-exec: run `make preview`",
            file=sys.stderr,
        )
        return 2
    children = Children()
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    server = grpc.server(
        ThreadPoolExecutor(max_workers=16),
        options=[
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ],
    )
    host = LanguageHost(
        engine_address=sys.argv[-1],
        program_runner=Path(runner),
        version=importlib.metadata.version("pulumi"),
        children=children,
    )
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    # The engine holds the other end of our input for as long as it lives.
    threading.Thread(target=_wait_for_end_of_input, args=(ended,), daemon=True).start()
    ended.wait()
    children.end_all()
    server.stop(grace=None)
    return 0


def _wait_for_end_of_input(ended: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
