"""The Kubeflow launcher: a SparkApplication sparkoperator.k8s.io/v1beta2, submitted in cluster mode. Pure.

It is created once and never changed: the Kubeflow operator reacts to a change by killing the application and submitting
it again. It tries once: the operator decides about another attempt from the commit record.

Without its webhook, the Kubeflow operator sets no owner on the driver pod, and does not delete it with the application.
So the EventConsumer owns the pod, and `orphans` are the drivers of deleted applications. The driver pod owns all other
objects of an application (executors, a Service, ConfigMaps).
"""

from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.spark import SparkPod
from eventconsumer_operator.kube.manifest import KUBEFLOW_APPLICATION, controller_uid, is_being_deleted, name_of
from eventconsumer_operator.resource.names import child
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark.launch import Launch
from eventconsumer_operator.spark.templates import (
    SPARK_VERSION,
    TTL_SLACK_SECONDS,
    driver_template,
    executor_template,
    secured,
)

APP_NAME_LABEL = "sparkoperator.k8s.io/app-name"
"""Label of an application's pods with its name, set by the Kubeflow operator."""


def application(launch: Launch) -> Manifest:
    """The SparkApplication of an attempt."""
    spark = launch.spark
    manifest = child(launch.consumer, KUBEFLOW_APPLICATION, launch.name, launch.labels[labels.LABEL_COMPONENT])
    manifest["metadata"]["labels"] = dict(launch.labels)
    owners = manifest["metadata"]["ownerReferences"]
    driver = driver_template(launch)
    return manifest | {
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "pythonVersion": "3",
            "sparkVersion": SPARK_VERSION,
            "image": launch.image,
            "imagePullPolicy": "IfNotPresent",
            "mainApplicationFile": spark.application.main_file,
            "arguments": list(spark.application.arguments),
            "sparkConf": {**launch.confs, **secured()},
            "restartPolicy": {"type": "Never"},
            "timeToLiveSeconds": spark.history.ttl_seconds + TTL_SLACK_SECONDS,
            "driver": {
                **_size(spark.driver),
                "serviceAccount": labels.SPARK_SERVICE_ACCOUNT,
                "template": driver | {"metadata": driver["metadata"] | {"ownerReferences": owners}},
            },
            "executor": {
                **_size(spark.executor),
                "instances": spark.executor.instances,
                "template": executor_template(launch),
            },
        }
    }


def orphans(observed: Observed) -> tuple[Manifest, ...]:
    """Drivers of deleted applications, which must be deleted, too."""
    names = {name_of(each) for each in observed.applications}
    return tuple(
        pod
        for pod in observed.drivers
        if controller_uid(pod) == observed.consumer.uid
        and not is_being_deleted(pod)
        and pod["metadata"]["labels"].get(APP_NAME_LABEL) not in names
    )


def _size(pod: SparkPod) -> dict[str, Any]:
    # No CPU limit: it would slow down the start and the garbage collection of a JVM.
    return {"cores": pod.cores, "coreRequest": pod.core_request or str(pod.cores), "memory": pod.memory}
