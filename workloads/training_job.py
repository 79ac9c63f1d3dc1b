"""The training run as a stack resource: made when something changed, awaited, and failed with the job's own words."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pulumi

from workloads.ray_resource import API_VERSION, TIMEOUT_SECONDS, WAIT_FOR, Manifest, RayResource

STOP_SECONDS = 60
"""Time for the program to save and end once its deadline is over, before it is killed."""
GRACE_SECONDS = 600
"""Time beyond the job's own deadline for the operator to see its end; after it the update fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobSpec:
    """One run; all that may change its result gives it its name (`job_name`).

    `storage_path` is the setting, empty for the stack's own bucket, whose name is known only once it stands.
    """

    namespace: str
    cluster: str
    image: str
    code_sha256: str
    arguments: Sequence[str]
    storage_path: str
    cluster_fingerprint: str
    run_id: str
    timeout_minutes: int
    await_job: Literal["finished", "running"]


def job_name(spec: TrainingJobSpec) -> str:
    """Return the name of the run: the same inputs give the same name, any change gives a new one."""
    identity = [
        spec.image,
        spec.code_sha256,
        list(spec.arguments),
        spec.storage_path,
        spec.timeout_minutes,
        spec.cluster_fingerprint,
        spec.run_id,
    ]
    return f"train-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:10]}"


def entrypoint(spec: TrainingJobSpec, storage_uri: str, record_uri: str) -> str:
    """Return the command that Ray runs on the head. Checkpoints go below `storage_uri`, the record below `record_uri`, by the run's name.

    The program is ended by `timeout`: the operator's own deadline marks the RayJob as failed and leaves the program its GPUs.
    """
    deadline = ["timeout", "--signal=TERM", f"--kill-after={STOP_SECONDS}", str(spec.timeout_minutes * 60)]
    places = [
        f"--run-name={job_name(spec)}",
        f"--storage-path={storage_uri}/checkpoints",
        f"--record-path={record_uri}/runs",
    ]
    return shlex.join([*deadline, "python", "-m", "train", *places, *spec.arguments])


def runtime_env(spec: TrainingJobSpec, code_uri: str) -> str:
    """Return Ray's runtime environment as YAML: the archive at `code_uri` is the working directory on every node.

    The variables are for the run's record, which says what ran.
    """
    told = {"TRAIN_CODE_SHA256": spec.code_sha256, "TRAIN_IMAGE_DIGEST": spec.image.partition("@")[2]}
    return json.dumps({"working_dir": code_uri, "env_vars": {name: value for name, value in told.items() if value}})


def manifest(spec: TrainingJobSpec, *, command: pulumi.Input[str], environment: pulumi.Input[str]) -> Manifest:
    """Return the RayJob of `spec` with the `entrypoint` and `runtime_env` of its storage.

    HTTPMode lets the operator submit: a submitter pod would retry, and its second try hides the first error behind "submission ID
    exists". The submission id is the run's name, so `ray job logs` works as pasted.
    """
    name = job_name(spec)
    # endTime is set by success and failure alike; a list of conditions would have to hold all together.
    ended = "{.status.endTime}" if spec.await_job == "finished" else "{.status.jobStatus}"
    deadline = spec.timeout_minutes * 60
    return {
        "apiVersion": API_VERSION,
        "kind": "RayJob",
        "metadata": {
            "name": name,
            "namespace": spec.namespace,
            "annotations": {WAIT_FOR: f"jsonpath={ended}", TIMEOUT_SECONDS: str(deadline + GRACE_SECONDS)},
        },
        "spec": {
            "clusterSelector": {"ray.io/cluster": spec.cluster},
            "submissionMode": "HTTPMode",
            "jobId": name,
            "entrypoint": command,
            "runtimeEnvYAML": environment,
            # Past the program's own end, for a head that does not answer any more.
            "activeDeadlineSeconds": deadline + 2 * STOP_SECONDS,
            # A retry would hide the first failure, and needs a cluster of its own.
            "backoffLimit": 0,
            # No shutdownAfterJobFinishes: false. The operator drops it when it writes the object back, and every later update
            # would put it in again, which is another spec, so another run.
        },
    }


def failure(await_job: Literal["finished", "running"], status: Mapping[str, Any] | None) -> str | None:
    """Return why a run with this RayJob status is no success, in the job's own words, or None.

    A finished run is a success only as SUCCEEDED: STOPPED is somebody's `ray job stop`.
    """
    found = status or {}
    job_status = found.get("jobStatus") or "nothing"
    if job_status == "SUCCEEDED" or (await_job == "running" and job_status in ("PENDING", "RUNNING")):
        return None
    said = found.get("message") or found.get("reason") or "no message"
    return (
        f"the training job ended as {job_status} (deployment {found.get('jobDeploymentStatus') or 'unknown'}); "
        f"allowed: SUCCEEDED; see `pulumi stack output jobLogs`, set runId to run it again; the job said:\n{said}"
    )


class TrainingJob(pulumi.ComponentResource):
    """A RayJob on a standing RayCluster. `pulumi up` ends with it and fails when it fails."""

    name: pulumi.Output[str]
    status: pulumi.Output[str]
    """Ray's job status; it resolves for a failed run too."""

    def __init__(
        self,
        name: str,
        spec: TrainingJobSpec,
        *,
        code_uri: pulumi.Output[str],
        storage_uri: pulumi.Output[str],
        record_uri: pulumi.Output[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("efa-ray-train:workloads:TrainingJob", name, None, opts)
        described = manifest(
            spec,
            command=pulumi.Output.all(storage_uri, record_uri).apply(lambda uris: entrypoint(spec, *uris)),
            environment=code_uri.apply(lambda uri: runtime_env(spec, uri)),
        )
        resource = RayResource(
            name,
            described,
            # A run is never edited: another spec is another run, and the old one leaves its GPUs first.
            pulumi.ResourceOptions(
                parent=self, replace_on_changes=["spec", "metadata.name"], delete_before_replace=True
            ),
        )
        self.name = resource.metadata.apply(lambda metadata: metadata["name"])
        self.status = resource.status.apply(lambda status: str((status or {}).get("jobStatus") or "UNKNOWN"))
        # At preview the status is the last run's, which must not fail a preview that is about to replace it.
        if not pulumi.runtime.is_dry_run():
            resource.status.apply(lambda status: _raise(failure(spec.await_job, status)))
        self.register_outputs({"name": self.name})


def _raise(reason: str | None) -> None:
    if reason:
        raise pulumi.RunError(reason)
