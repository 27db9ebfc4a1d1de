"""Parts of the pods of drivers and executors that all launchers share: place, disks, what the program gets. Pure.

Spark adds names, images, sizes, ports, arguments and variables to the executors' template.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.mounts import REGISTRY_SECRET, SINK_SECRET, secret_mount, secret_volume
from eventconsumer_api.kube.podsecurity import container_security, pod_security
from eventconsumer_api.kube.quantities import amount
from eventconsumer_api.spec.spark import Scratch, SparkPod
from eventconsumer_api.wire.host_config import Credential
from eventconsumer_operator.resource import programs
from eventconsumer_operator.resource.pods import placement, tmp_volume
from eventconsumer_operator.spark.launch import Launch

SCRATCH_FOLDER = "/scratch"
"""Where spec.spark.driver.scratch and spec.spark.executor.scratch are mounted."""
SCRATCH_VOLUME = "spark-local-dir-1"
"""Its volume. Spark uses the mounts of volumes with such a name as its local directories, in executors and in drivers
that it creates. Source: "Local Storage" in spark.apache.org/docs/latest/running-on-kubernetes.html
"""
_REQUEST_MIB = 256
# The log and /tmp; without scratch also the files that Spark shuffles and spills.
_LIMIT_MIB = 32 * 1024
_LIMIT_BESIDE_SCRATCH_MIB = 4 * 1024


def metadata(pod: SparkPod, own: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Labels and annotations of a pod; `own` and `annotations` are the operator's, which override the user's."""
    given = {"labels": {**pod.labels, **own}, "annotations": {**pod.annotations, **(annotations or {})}}
    return {name: values for name, values in given.items() if values}


def storage(pod: SparkPod) -> dict[str, dict[str, str]]:
    """Requests and limits of ephemeral storage, with the scratch volume where it is on the node."""
    scratch = pod.scratch
    on_node = math.ceil(amount(scratch.size) / 2**20) if scratch and not scratch.storage_class_name else 0
    return {
        "requests": {"ephemeral-storage": f"{_REQUEST_MIB + on_node}Mi"},
        "limits": {"ephemeral-storage": f"{_tmp_mib(pod) + on_node}Mi"},
    }


def _tmp_mib(pod: SparkPod) -> int:
    return _LIMIT_BESIDE_SCRATCH_MIB if pod.scratch else _LIMIT_MIB


def volumes(launch: Launch, pod: SparkPod) -> list[dict[str, Any]]:
    """The volume of /tmp, the scratch volume, and those of the program."""
    tmp = tmp_volume(f"{_tmp_mib(pod)}Mi")
    scratch = [_scratch(pod.scratch, {**pod.labels, **launch.labels})] if pod.scratch else []
    return [tmp, *scratch, *programs.volumes(launch.spark.application)]


def _scratch(scratch: Scratch, own: Mapping[str, str]) -> dict[str, Any]:
    """The scratch volume; `own` are the labels of its claim."""
    if scratch.storage_class_name is None:
        return {"name": SCRATCH_VOLUME, "emptyDir": {"sizeLimit": scratch.size}}
    # The claim is created and deleted with its pod.
    # Source: kubernetes.io/docs/concepts/storage/ephemeral-volumes, "Generic ephemeral volumes"
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": scratch.storage_class_name,
        "resources": {"requests": {"storage": scratch.size}},
    }
    template = {"metadata": {"labels": dict(own)}, "spec": claim}
    return {"name": SCRATCH_VOLUME, "ephemeral": {"volumeClaimTemplate": template}}


def mounts(launch: Launch, pod: SparkPod) -> list[dict[str, Any]]:
    """The mounts of `volumes`."""
    tmp = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - the pod's own
    scratch = [{"name": SCRATCH_VOLUME, "mountPath": SCRATCH_FOLDER}] if pod.scratch else []
    return [tmp, *scratch, *programs.mounts(launch.spark.application)]


def secret_volumes(launch: Launch) -> list[dict[str, Any]]:
    """The volumes of the driver's credentials.

    Without its Secret a driver would fail: so the volumes are not optional, and the pod waits for the Secret.
    """
    found = (secret_volume(folder, each, optional=False) for folder, each in _credentials(launch).items())
    return [volume for volume in found if volume]


def secret_mounts(launch: Launch) -> list[dict[str, Any]]:
    """The mounts of `secret_volumes`."""
    return [secret_mount(volume["name"]) for volume in secret_volumes(launch)]


def uses_identity(launch: Launch) -> bool:
    """Whether the driver signs in with workload identity, at storage or at the schema registry."""
    return any(each.client_id for each in _credentials(launch).values())


def _credentials(launch: Launch) -> dict[str, Credential]:
    registry = launch.batch.registry
    return {SINK_SECRET: launch.config.sink.credential} | ({REGISTRY_SECRET: registry} if registry else {})


def environment(launch: Launch, own: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """`env` and `envFrom` of a container; `own` are the operator's variables."""
    application = launch.spark.application
    found = {
        "env": [*own, *programs.environment(application)],
        "envFrom": programs.env_sources(application),
    }
    return {name: values for name, values in found.items() if values}


def executor_template(launch: Launch, container: str) -> dict[str, Any]:
    """The template of executor pods.

    Args:
        launch: The application.
        container: Name of the container, by which Spark finds it.
    """
    executor = launch.spark.executor
    return {
        "metadata": metadata(executor, launch.labels),
        "spec": {
            "serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,  # for workload identity; without the API token
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security(),
            **placement(executor),
            "containers": [
                {
                    "name": container,
                    **environment(launch),
                    "resources": storage(executor),  # Spark adds CPU and memory
                    "securityContext": container_security(),
                    "volumeMounts": mounts(launch, executor),
                }
            ],
            "volumes": volumes(launch, executor),
        },
    }
