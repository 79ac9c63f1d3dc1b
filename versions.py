"""Every version this program pins, in one place.

A pin is a version that was rendered, type-checked or run with the others here. EKS add-ons and node AMIs have no entry: their builds
exist per Region and Kubernetes version, so the stack asks EKS for its default build and `addonVersions` and `gpuAmiRelease` pin one.
"""

from typing import Final

KUBERNETES: Final = "1.36"
"""EKS control plane; the AWS sample for multi-node Ray Train on EKS runs the same minor version."""

RAY: Final = "2.58.0"
"""Ray in the image below; KubeRay writes it to the RayCluster and refuses features that it lacks."""

IMAGE: Final = "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1"
"""AWS's Ray training image, used unmodified: Python 3.13, PyTorch 2.13.0, CUDA 13.0.2, NCCL 2.29.7, EFA 1.47.0, aws-ofi-nccl."""

NVIDIA_DEVICE_PLUGIN: Final = "0.20.0"
"""Chart `nvidia-device-plugin` of https://nvidia.github.io/k8s-device-plugin."""

EFA_DEVICE_PLUGIN: Final = "v0.5.30"
"""Chart `aws-efa-k8s-device-plugin` of https://aws.github.io/eks-charts."""

KUBERAY: Final = "1.6.1"
"""Chart `kuberay-operator` of https://ray-project.github.io/kuberay-helm; first minor version with `upgradeStrategy` and `authOptions`."""
