"""Wire the Kubernetes half: plugins and operator -> Ray cluster -> training job -> outputs."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pulumi

from infra.instances import instance
from infra.stack import Infrastructure
from infra.stack_price import stack_price
from settings.fields import Settings
from workloads import ray_cluster
from workloads.chart_values import KUBERAY_CHART, OPERATOR_NAMESPACE, ChartSpec, releases
from workloads.device_plugins import DevicePlugins
from workloads.kuberay import KubeRay
from workloads.namespace import Namespace, NamespaceArgs
from workloads.network_policy import NetworkPolicies
from workloads.outputs import commands, job_logs
from workloads.ray_cluster import RayCluster, RayClusterSpec
from workloads.shared_volume import SharedVolume, SharedVolumeArgs
from workloads.training_job import TrainingJob, TrainingJobSpec, job_name


def deploy_workloads(settings: Settings, infra: Infrastructure) -> Mapping[str, pulumi.Input[Any]]:
    """Register every Kubernetes resource of the stack and return the outputs.

    Each is deleted with the cluster: `pulumi destroy` never waits for a finalizer or for an API server that no longer answers.
    """
    namespace, source = settings.ray.namespace, settings.charts.chart_source
    charts = {
        chart.chart: chart
        for chart in releases(
            ChartSpec(
                gpu_instance_type=settings.gpu.gpu_instance_type,
                efa_interfaces=infra.efa_interfaces,
                ray_namespace=namespace,
                efa_image_repository=settings.charts.efa_plugin_image or None,
            )
        )
    }

    def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            provider=infra.cluster.provider, depends_on=list(resources), deleted_with=infra.cluster.control_plane
        )

    home = Namespace("ray-namespace", NamespaceArgs(name=namespace), after(*infra.cluster.networking))
    kuberay = KubeRay(
        "kuberay", charts.pop(KUBERAY_CHART), source=source, opts=after(*infra.system_nodes.ready, *home.resources)
    )
    plugins = DevicePlugins("device-plugins", list(charts.values()), source=source, opts=after(infra.gpu_nodes.group))
    fences = NetworkPolicies(
        "ray",
        namespace=namespace,
        cluster=ray_cluster.NAME,
        operator_namespace=OPERATOR_NAMESPACE,
        opts=after(*home.resources),
    )
    volumes = _shared_volume(settings, infra, after(*home.resources))
    spec = cluster_spec(settings, infra)
    cluster = RayCluster(
        "ray",
        spec,
        after(
            kuberay.release,
            *plugins.releases,
            *fences.resources,
            *volumes,
            *infra.system_nodes.ready,
            infra.identity.association,
        ),
    )
    run = job_spec(settings, infra, spec)
    job = TrainingJob(
        "training",
        run,
        code_uri=infra.code_archive.uri,
        storage_uri=_storage_uri(settings, infra),
        record_uri=_bucket_uri(infra),
        opts=after(cluster.resource, infra.code_archive),
    )
    return _outputs(settings, infra, run, job)


def cluster_spec(settings: Settings, infra: Infrastructure) -> RayClusterSpec:
    """Return the Ray cluster that the settings describe."""
    gpus = settings.ray.worker_gpus or instance(settings.gpu.gpu_instance_type).gpus
    return RayClusterSpec(
        namespace=settings.ray.namespace,
        image=settings.ray.image,
        zone=infra.placement.zone,
        workers=settings.gpu.gpu_node_count,
        head_cpu=settings.ray.head_cpu,
        head_memory_gib=settings.ray.head_memory_gib,
        worker_cpu=settings.ray.worker_cpu,
        worker_memory_gib=settings.ray.worker_memory_gib,
        worker_gpus=gpus,
        worker_efa=infra.efa_interfaces,
        worker_ray_start_params=settings.ray.worker_ray_start_params,
        worker_environment=settings.ray.worker_environment,
        shared_volume_claim=_claim(settings, infra),
        timeout_minutes=settings.ray.cluster_timeout_minutes,
    )


def job_spec(settings: Settings, infra: Infrastructure, cluster: RayClusterSpec) -> TrainingJobSpec:
    """Return the run that the settings describe."""
    fingerprint = json.dumps(ray_cluster.manifest(cluster)["spec"], sort_keys=True)
    return TrainingJobSpec(
        namespace=cluster.namespace,
        cluster=ray_cluster.NAME,
        image=cluster.image,
        code_sha256=infra.code.sha256,
        arguments=[
            f"--model={settings.job.model}",
            f"--num-nodes={cluster.workers}",
            f"--gpus-per-node={cluster.worker_gpus}",
            f"--network={'efa' if cluster.worker_efa else 'tcp'}",
            *settings.job.training_arguments,
        ],
        storage_path=settings.job.storage_path,
        cluster_fingerprint=hashlib.sha256(fingerprint.encode()).hexdigest(),
        run_id=settings.job.run_id,
        timeout_minutes=settings.job.job_timeout_minutes,
        await_job=settings.job.await_job,
    )


def _storage_uri(settings: Settings, infra: Infrastructure) -> pulumi.Output[str]:
    if settings.job.storage_path:
        return pulumi.Output.from_input(settings.job.storage_path.rstrip("/"))
    return _bucket_uri(infra)


def _bucket_uri(infra: Infrastructure) -> pulumi.Output[str]:
    return pulumi.Output.format("s3://{0}", infra.storage.bucket_name)


def _claim(settings: Settings, infra: Infrastructure) -> str:
    return f"fsx-{infra.placement.zone}-{settings.storage.fsx_capacity_gib}" if infra.filesystem else ""


def _shared_volume(settings: Settings, infra: Infrastructure, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    if infra.filesystem is None:
        return []
    volume = SharedVolume(
        "fsx",
        SharedVolumeArgs(
            namespace=settings.ray.namespace,
            claim=_claim(settings, infra),
            filesystem_id=infra.filesystem.id,
            dns_name=infra.filesystem.dns_name,
            mount_name=infra.filesystem.mount_name,
            capacity_gib=settings.storage.fsx_capacity_gib,
        ),
        opts,
    )
    return [*volume.resources, *([infra.filesystem_driver] if infra.filesystem_driver else [])]


def _outputs(
    settings: Settings, infra: Infrastructure, run: TrainingJobSpec, job: TrainingJob
) -> Mapping[str, pulumi.Input[Any]]:
    """Return the stack's outputs. They hang on names, not on the job's success: a failed run still has its logs."""
    namespace, name = run.namespace, job_name(run)
    storage, bucket = _storage_uri(settings, infra), _bucket_uri(infra)
    logs = job_logs(namespace=namespace, cluster=run.cluster, job=name)
    image, _, digest = run.image.partition("@")
    return {
        "region": settings.region,
        "gpuAvailabilityZone": infra.placement.zone,
        "clusterName": infra.cluster.name,
        "kubeconfig": infra.cluster.kubeconfig,
        "rayClusterName": run.cluster,
        "jobName": name,
        "jobStatus": job.status,
        "imageDigest": digest or f"not pinned: {image}",
        "codeUri": infra.code_archive.uri,
        "checkpointUri": pulumi.Output.format("{0}/checkpoints/{1}", storage, name),
        "runRecordUri": pulumi.Output.format("{0}/runs/{1}/record.json", bucket, name),
        "transportReportUri": pulumi.Output.format("{0}/runs/{1}/transport.json", bucket, name),
        "hourlyPriceUsd": stack_price(settings).usd_per_hour,
        "expiresAt": "never",
        "commands": dict(commands(namespace=namespace, cluster=run.cluster)),
        "jobLogs": {
            part: {"command": command, "uri": "none: these logs end with their pods"} for part, command in logs.items()
        },
    }
