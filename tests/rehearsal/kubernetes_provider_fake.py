"""A Kubernetes provider that only takes its configuration: a component makes one, and these tests put nothing into a cluster."""

import threading
from concurrent import futures

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc


class FakeKubernetes(provider_pb2_grpc.ResourceProviderServicer):
    """Accepts every configuration; has no resources."""

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version="4.25.0")

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        same = request.olds == request.news
        answer = provider_pb2.DiffResponse
        return answer(changes=answer.DIFF_NONE if same else answer.DIFF_SOME)

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()


if __name__ == "__main__":
    server = grpc.server(futures.ThreadPoolExecutor())
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(FakeKubernetes(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    threading.Event().wait()
