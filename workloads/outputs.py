"""The commands that the stack's outputs offer; each works as pasted, in a shell at the program's folder."""

from collections.abc import Mapping

KUBECONFIG_COMMAND = (
    "pulumi stack output kubeconfig --show-secrets > kubeconfig.json && export KUBECONFIG=$PWD/kubeconfig.json"
)


def commands(*, namespace: str, cluster: str) -> Mapping[str, str]:
    """Return how to reach the cluster, its dashboard, and its proof."""
    return {
        "kubeconfig": KUBECONFIG_COMMAND,
        "dashboard": f"kubectl --namespace {namespace} port-forward service/{cluster}-head-svc 8265:8265",
        "verify": f"kubectl --namespace {namespace} get raycluster,rayjob,pods --output wide",
    }


def job_logs(*, namespace: str, cluster: str, job: str) -> Mapping[str, str]:
    """Return the commands that print the logs of driver, workers and NCCL while the pods live.

    Ray writes a training worker's output to files of its session, not to the container's output.
    """
    workers = f"kubectl --namespace {namespace} get pods --selector ray.io/cluster={cluster},ray.io/node-type=worker --output name"
    each = f'for pod in $({workers}); do echo "== $pod"; kubectl --namespace {namespace} exec $pod --container ray-worker -- '
    # Ray's own variable for where its sessions lie; the image does not set it.
    files = "${RAY_TMPDIR:-/tmp}/ray/session_latest/logs/worker-*"
    return {
        "driver": f"kubectl --namespace {namespace} exec service/{cluster}-head-svc --container ray-head -- ray job logs {job} --follow",
        "workers": f"{each}sh -c 'tail -n +1 {files}'; done",
        # The training program sends NCCL's words to a file for each rank (its setting transport.log_dir).
        "nccl": f"{each}sh -c 'tail -n +1 /tmp/nccl/*.log || echo no NCCL line yet'; done",
    }
