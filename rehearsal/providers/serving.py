"""Serve a provider to the engine: the plugin protocol around a gRPC service."""

from __future__ import annotations

import signal
import threading
from concurrent import futures
from types import FrameType

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from .aws.api import Api
from .aws.servicer import AwsServicer

MESSAGE_LIMIT = 400 * 1024 * 1024
"""Bytes; the engine's own limit for a message."""


def serve_aws() -> None:
    """Serve the `aws` stand-in until the engine ends it; the port is the first line on stdout."""
    options = [("grpc.max_receive_message_length", MESSAGE_LIMIT), ("grpc.max_send_message_length", MESSAGE_LIMIT)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=32), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(AwsServicer(Api()), server)
    port = server.add_insecure_port("127.0.0.1:0")
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    server.start()
    print(port, flush=True)
    ended.wait()
    server.stop(grace=1).wait()
