"""What is built, from which Go module, at which version. A new tool is one more row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

GO_DIRECTORY = Path(__file__).resolve().parents[1] / "go"


class Into(Enum):
    """Where a file out of a Go module goes: beside the sources before the build, or beside the binaries."""

    SOURCES = "sources"
    ENTRY = "entry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFile:
    """A file taken out of a Go module that `go.mod` names, because `go build` alone does not bring it."""

    module: str
    path: str
    into: Into
    version: str | None = None
    """Written into the `version` field of the JSON file when set: published schemas carry none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One Go module of ours and the binaries that are built from it."""

    name: str
    version: str
    sources: Path
    """The directory of go.mod, go.sum and the Go files."""
    binaries: Mapping[str, str]
    """Binary name to Go package."""
    version_symbol: str | None = None
    """Go variable that the linker sets to `linked_version`."""
    linked_version: str = ""
    link: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further Go variables that the linker sets."""
    files: tuple[ModuleFile, ...] = field(default=())
    command: str = "pulumi"
    """The program whose official release makes the build unnecessary."""
    official: str = "Pulumi (https://www.pulumi.com/docs/install/)"
    """That release and where it is to be had."""
    cost: str
    """What a first build takes, told to whoever waits for it."""


ENGINE = Tool(
    name="pulumi",
    version="3.274.1",
    sources=GO_DIRECTORY / "pulumi",
    binaries={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    version_symbol="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
    linked_version="v3.274.1",
    files=(
        ModuleFile(
            module="github.com/pulumi/pulumi/sdk/v3",
            path="python/cmd/pulumi-language-python-exec",
            into=Into.ENTRY,
        ),
    ),
    cost="about 7 CPU-minutes the first time",
)

_KUBERNETES_MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_KUBERNETES_FILES = "cmd/pulumi-resource-kubernetes"

KUBERNETES_PROVIDER = Tool(
    name="pulumi-kubernetes",
    version="4.25.0",
    sources=GO_DIRECTORY / "pulumi-kubernetes",
    binaries={"pulumi-resource-kubernetes": "."},
    version_symbol=f"{_KUBERNETES_MODULE}/pkg/version.Version",
    linked_version="4.25.0",
    files=(
        ModuleFile(
            module=_KUBERNETES_MODULE,
            path=f"{_KUBERNETES_FILES}/schema.json",
            into=Into.SOURCES,
            version="4.25.0",
        ),
        ModuleFile(module=_KUBERNETES_MODULE, path=f"{_KUBERNETES_FILES}/terraform-mapping.json", into=Into.SOURCES),
    ),
    cost="about 14 CPU-minutes the first time",
)

HELM = Tool(
    name="helm",
    version="3.18.6",
    sources=GO_DIRECTORY / "helm",
    binaries={"helm": "helm.sh/helm/v3/cmd/helm"},
    command="helm",
    official="Helm 3 (https://helm.sh/docs/intro/install/)",
    cost="about 3 CPU-minutes the first time",
)

KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"

# etcd is in Kubernetes' own module graph, at the version that its API server is tested with.
KUBERNETES = Tool(
    name="kubernetes",
    version="1.36.3",
    sources=GO_DIRECTORY / "kubernetes",
    binaries={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    },
    version_symbol="k8s.io/component-base/version.gitVersion",
    linked_version="v1.36.3",
    link={
        "k8s.io/component-base/version.gitMajor": "1",
        "k8s.io/component-base/version.gitMinor": "36",
        # An API server without them counts as a development build to the clients that parse them.
        "k8s.io/component-base/version.gitTreeState": "clean",
    },
    command="kube-apiserver",
    official="the Kubernetes server binaries and etcd (https://kubernetes.io/releases/download/)",
    cost="about 9 CPU-minutes the first time",
)

KUBERAY_OPERATOR = Tool(
    name="kuberay-operator",
    version="1.6.1",
    sources=GO_DIRECTORY / "kuberay",
    binaries={"ray-operator": KUBERAY_MODULE},
    command="ray-operator",
    official="the KubeRay operator (https://github.com/ray-project/kuberay/releases)",
    cost="about 2 CPU-minutes the first time",
)

KWOK = Tool(
    name="kwok",
    version="0.8.0",
    sources=GO_DIRECTORY / "kwok",
    binaries={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    command="kwok",
    official="kwok (https://kwok.sigs.k8s.io/docs/user/installation/)",
    cost="about 2 CPU-minutes the first time",
)
