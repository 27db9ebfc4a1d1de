"""The native launcher: a Job whose pod is the driver. Pure.

The driver runs all tasks itself (`local[N]`), or creates executor pods, which it owns: they are deleted with it. Their
template is an annotation of the driver pod, which the kubelet writes into a file. The Job tries once: the operator
decides about another attempt from the commit record.
"""

import json
from pathlib import PurePosixPath
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.expansion import inert
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.podsecurity import container_security, pod_security
from eventconsumer_api.kube.quantities import canonical
from eventconsumer_api.spec.spark import SparkPod
from eventconsumer_operator.kube.manifest import JOB, containers_of, kind_of
from eventconsumer_operator.resource.names import child
from eventconsumer_operator.resource.pods import WORKLOAD_IDENTITY_LABEL, placement
from eventconsumer_operator.spark.applications import DRIVER
from eventconsumer_operator.spark.launch import TTL_SLACK_SECONDS, Launch, driver_environment, proxy_properties
from eventconsumer_operator.spark.pods import (
    SCRATCH_FOLDER,
    environment,
    executor_template,
    metadata,
    mounts,
    secret_mounts,
    secret_volumes,
    storage,
    uses_identity,
    volumes,
)

_DRIVER_GRACE_SECONDS = 30
_EXECUTOR_CONTAINER = "executor"  # as in the entrypoint of the Spark image
_EXECUTOR_VOLUME = "executor"
# Spark's memory outside the heap: 40 % for Python programs, 384 MiB at least.
_OVERHEAD_FACTOR = 0.4
_OVERHEAD_MIN_MIB = 384
# In a short run half of the time is spent by the optimizing compiler, without benefit; one core needs one collector. A
# resident driver fills the code cache of this mode (48 MiB) within 100 batches. The last two return the heap's free
# memory after a collection: 849 MiB of resident memory instead of 1,259 after 60 batches, with the same CPU time
# (tests/bench/spark_resident.py --java).
QUICK_START = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m "
    "-XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
)


def application(launch: Launch) -> Manifest:
    """The Job of an attempt."""
    spark = launch.spark
    manifest = child(launch.consumer, JOB, launch.name, launch.labels[labels.LABEL_COMPONENT])
    manifest["metadata"]["labels"] = dict(launch.labels)
    identity = WORKLOAD_IDENTITY_LABEL if uses_identity(launch) else {}
    return manifest | {
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": launch.deadline_seconds,
            "ttlSecondsAfterFinished": spark.history.ttl_seconds + TTL_SLACK_SECONDS,
            "template": {
                "metadata": metadata(spark.driver, {**launch.labels, **identity}, _annotations(launch)),
                "spec": _driver(launch),
            },
        }
    }


def is_local_job(manifest: Manifest) -> bool:
    """Whether an application is a Job without executors."""
    if kind_of(manifest) != JOB:
        return False
    return any("--local" in container.get("args", [])[:2] for container in containers_of(manifest))


def pod_memory_mib(pod: SparkPod) -> int:
    """Memory of a driver or executor pod: the heap and Spark's overhead for Python programs, MiB."""
    amount, unit = int(pod.memory[:-1]), pod.memory[-1]
    heap = amount * 1024 if unit == "g" else amount
    return heap + max(_OVERHEAD_MIN_MIB, int(heap * _OVERHEAD_FACTOR))


def _driver(launch: Launch) -> dict[str, Any]:
    driver, application = launch.spark.driver, launch.spark.application
    memory, disk = f"{pod_memory_mib(driver)}Mi", storage(driver)
    resources = {
        "requests": {"cpu": driver.core_request or str(driver.cores), "memory": memory, **disk["requests"]},
        "limits": {
            **({"cpu": canonical(driver.cpu_limit)} if driver.cpu_limit else {}),
            "memory": memory,
            **disk["limits"],
        },
    }
    # Spark reads it where it did not create the pod (spark.apache.org/docs/latest/configuration.html).
    local_dirs = [{"name": "SPARK_LOCAL_DIRS", "value": SCRATCH_FOLDER}] if driver.scratch else []
    return {
        "restartPolicy": "Never",
        "serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,
        "automountServiceAccountToken": not launch.local,  # to create executor pods
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _DRIVER_GRACE_SECONDS,
        "securityContext": pod_security(),
        **placement(driver),
        "containers": [
            {
                "name": DRIVER,
                "image": launch.image,
                "imagePullPolicy": "IfNotPresent",
                "args": [
                    "driver",
                    *(["--local", str(driver.cores)] if launch.local else []),
                    *_confs(launch),
                    application.main_file,
                    *map(inert, application.arguments),
                ],
                **environment(launch, [*driver_environment(launch), *local_dirs]),
                "securityContext": container_security(),
                "resources": resources,
                "volumeMounts": [
                    *mounts(launch, driver),
                    *secret_mounts(launch),
                    *([] if launch.local else [_executor_mount()]),
                ],
            }
        ],
        "volumes": [
            *volumes(launch, driver),
            *secret_volumes(launch),
            *([] if launch.local else [_executor_volume()]),
        ],
    }


def _annotations(launch: Launch) -> dict[str, str]:
    """The template of the executors, which a driver without executors does not need."""
    if launch.local:
        return {}
    template = {"apiVersion": "v1", "kind": "Pod", **executor_template(launch, _EXECUTOR_CONTAINER)}
    return {labels.ANNOTATION_EXECUTOR: json.dumps(template)}


def _executor_volume() -> dict[str, Any]:
    """The file with the executors' template."""
    path = PurePosixPath(labels.EXECUTOR_FILE).name
    field = {"fieldPath": f"metadata.annotations['{labels.ANNOTATION_EXECUTOR}']"}
    return {"name": _EXECUTOR_VOLUME, "downwardAPI": {"items": [{"path": path, "fieldRef": field}]}}


def _executor_mount() -> dict[str, Any]:
    return {
        "name": _EXECUTOR_VOLUME,
        "mountPath": str(PurePosixPath(labels.EXECUTOR_FILE).parent),
        "readOnly": True,
    }


def _confs(launch: Launch) -> list[str]:
    """The user's properties, overridden by sizes and labels; the image configures the network."""
    values = {**launch.confs, **proxy_properties(launch), "spark.driver.memory": launch.spark.driver.memory}
    if not launch.local:
        values |= _executors(launch)
    elif launch.small:
        java = values.get("spark.driver.extraJavaOptions", "")
        values["spark.driver.extraJavaOptions"] = f"{QUICK_START} {java}".rstrip()
    return [part for name, value in values.items() for part in ("--conf", f"{name}={value}")]


def _executors(launch: Launch) -> dict[str, str]:
    # By default no CPU limit: it would slow down the start and the garbage collection of a JVM.
    executor = launch.spark.executor
    limit = {"spark.kubernetes.executor.limit.cores": executor.cpu_limit} if executor.cpu_limit else {}
    return {
        "spark.executor.instances": str(launch.first_executors),
        "spark.executor.cores": str(executor.cores),
        "spark.executor.memory": executor.memory,
        **launch.scaling,
        "spark.kubernetes.executor.request.cores": executor.core_request or str(executor.cores),
        **limit,
        "spark.kubernetes.container.image": launch.image,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        **{f"spark.kubernetes.executor.label.{name}": value for name, value in launch.labels.items()},
    }
