"""The Kubeflow and Apache launchers: SparkApplications, submitted in cluster mode by an operator for Spark. Pure.

An application tries once: the operator decides about another attempt from the commit record.

The pod templates contain what Spark properties cannot express. Spark adds names, images, sizes, ports, arguments and
variables. The pods comply with the restricted Pod Security Standard, and need no webhook.

Spark's submission copies the arguments of the program into the arguments of the driver's container
(DriverCommandFeatureStep), where Kubernetes expands references to variables once, as in a Job of ours.

Kubeflow: a SparkApplication sparkoperator.k8s.io/v1beta2. It is created once and never changed: the Kubeflow operator
reacts to a change by killing the application and submitting it again. Without its webhook, the Kubeflow operator sets
no owner on the driver pod, and does not delete it with the application. So the EventConsumer owns the pod, and
`orphaned_drivers` are the drivers of deleted applications. The driver pod owns all other objects of an application
(executors, a Service, ConfigMaps).

Apache: a SparkApplication spark.apache.org/v1. It owns its pods, which are kept for their logs until it is deleted.
Spark sets the labels of the pods, because the launcher does not.
"""

from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.expansion import inert
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.podsecurity import container_security, pod_security
from eventconsumer_api.spec.spark import SparkPod
from eventconsumer_operator.kube.manifest import (
    APACHE_APPLICATION,
    KUBEFLOW_APPLICATION,
    controller_uid,
    is_being_deleted,
    name_of,
)
from eventconsumer_operator.resource.names import child
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.pods import WORKLOAD_IDENTITY_LABEL, placement
from eventconsumer_operator.spark.launch import TTL_SLACK_SECONDS, Launch, driver_environment, proxy_properties
from eventconsumer_operator.spark.pods import (
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

SPARK_VERSION = "4.1.1"
"""Version of the Spark image, for launchers that require it."""
DRIVER_CONTAINER = "spark-kubernetes-driver"
EXECUTOR_CONTAINER = "spark-kubernetes-executor"
APP_NAME_LABEL = "sparkoperator.k8s.io/app-name"
"""Label of an application's pods with its name, set by the Kubeflow operator."""
PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
_DRIVER_GRACE_SECONDS = 30


def kubeflow_application(launch: Launch) -> Manifest:
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
            "arguments": list(map(inert, spark.application.arguments)),
            "sparkConf": {**launch.confs, **proxy_properties(launch), **launch.scaling, **secured()},
            "restartPolicy": {"type": "Never"},
            "timeToLiveSeconds": spark.history.ttl_seconds + TTL_SLACK_SECONDS,
            "driver": {
                **_kubeflow_size(spark.driver),
                "serviceAccount": labels.SPARK_SERVICE_ACCOUNT,
                "template": driver | {"metadata": driver["metadata"] | {"ownerReferences": owners}},
            },
            "executor": {
                **_kubeflow_size(spark.executor),
                "instances": launch.first_executors,
                "template": executor_template(launch, EXECUTOR_CONTAINER),
            },
        }
    }


def orphaned_drivers(observed: Observed) -> tuple[Manifest, ...]:
    """Drivers of deleted applications, which must be deleted, too."""
    names = {name_of(each) for each in observed.applications}
    return tuple(
        pod
        for pod in observed.drivers
        if controller_uid(pod) == observed.consumer.uid
        and not is_being_deleted(pod)
        and pod["metadata"]["labels"].get(APP_NAME_LABEL) not in names
    )


def apache_application(launch: Launch) -> Manifest:
    """The SparkApplication of an attempt."""
    spark = launch.spark
    manifest = child(launch.consumer, APACHE_APPLICATION, launch.name, launch.labels[labels.LABEL_COMPONENT])
    manifest["metadata"]["labels"] = dict(launch.labels)
    return manifest | {
        "spec": {
            "deploymentMode": "ClusterMode",
            "mainClass": PYTHON_RUNNER,
            "pyFiles": spark.application.main_file,
            "driverArgs": list(map(inert, spark.application.arguments)),
            "sparkConf": {**launch.confs, **proxy_properties(launch), **launch.scaling, **_apache_conf(launch)},
            "runtimeVersions": {"sparkVersion": SPARK_VERSION},
            "driverSpec": {"podTemplateSpec": driver_template(launch)},
            "executorSpec": {"podTemplateSpec": executor_template(launch, EXECUTOR_CONTAINER)},
            "applicationTolerations": {
                "restartConfig": {"restartPolicy": "Never"},
                "resourceRetainPolicy": "Always",
                "ttlAfterStopMillis": 1000 * (spark.history.ttl_seconds + TTL_SLACK_SECONDS),
            },
        }
    }


def driver_template(launch: Launch) -> dict[str, Any]:
    """The template of the driver pod. The kubelet stops it after its deadline."""
    driver = launch.spark.driver
    identity = WORKLOAD_IDENTITY_LABEL if uses_identity(launch) else {}
    return {
        "metadata": metadata(driver, {**launch.labels, **identity}),
        "spec": {
            "serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,
            "automountServiceAccountToken": True,  # the driver creates the executor pods
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _DRIVER_GRACE_SECONDS,
            "activeDeadlineSeconds": launch.deadline_seconds,
            "securityContext": pod_security(),
            **placement(driver),
            "containers": [
                {
                    "name": DRIVER_CONTAINER,
                    **environment(launch, driver_environment(launch)),
                    # Spark adds CPU and memory.
                    "resources": storage(driver),
                    "securityContext": container_security(),
                    "volumeMounts": [*mounts(launch, driver), *secret_mounts(launch)],
                }
            ],
            "volumes": [*volumes(launch, driver), *secret_volumes(launch)],
        },
    }


def secured() -> dict[str, str]:
    """Properties that the image sets in any case, visible in the resource.

    The driver sends the storage credential to executors: only executors may connect, and the traffic is encrypted. Not
    with AES/GCM: Spark 4.1.1 drops every message after the first, and executors never register (SPARK-56227).
    """
    return {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/CTR/NoPadding",
        "spark.ui.enabled": "false",  # its web server has no authentication
    }


def _kubeflow_size(pod: SparkPod) -> dict[str, Any]:
    # By default no CPU limit: it would slow down the start and the garbage collection of a JVM.
    limit = {"coreLimit": pod.cpu_limit} if pod.cpu_limit else {}
    return {"cores": pod.cores, "coreRequest": pod.core_request or str(pod.cores), "memory": pod.memory, **limit}


def _apache_conf(launch: Launch) -> dict[str, str]:
    spark = launch.spark
    return {
        "spark.executor.instances": str(launch.first_executors),
        **_apache_size("driver", spark.driver),
        **_apache_size("executor", spark.executor),
        "spark.kubernetes.authenticate.driver.serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,
        "spark.kubernetes.container.image": launch.image,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.driver.podTemplateContainerName": DRIVER_CONTAINER,
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
        **{
            f"spark.kubernetes.{role}.label.{name}": value
            for role in ("driver", "executor")
            for name, value in launch.labels.items()
        },
        **secured(),
    }


def _apache_size(role: str, pod: SparkPod) -> dict[str, str]:
    limit = {f"spark.kubernetes.{role}.limit.cores": pod.cpu_limit} if pod.cpu_limit else {}
    return {
        f"spark.{role}.cores": str(pod.cores),
        f"spark.{role}.memory": pod.memory,
        f"spark.kubernetes.{role}.request.cores": pod.core_request or str(pod.cores),
        **limit,
    }
