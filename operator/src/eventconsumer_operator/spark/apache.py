"""The Apache launcher: a SparkApplication spark.apache.org/v1, submitted in cluster mode. Pure.

It tries once: the operator decides about another attempt from the commit record. The application owns its pods, which
are kept for their logs until it is deleted. Spark sets the labels of the pods, because the launcher does not.
"""

from eventconsumer_api import labels
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.spark import SparkPod
from eventconsumer_operator.kube.manifest import APACHE_APPLICATION
from eventconsumer_operator.resource.names import child
from eventconsumer_operator.spark.launch import Launch
from eventconsumer_operator.spark.templates import (
    DRIVER_CONTAINER,
    EXECUTOR_CONTAINER,
    SPARK_VERSION,
    TTL_SLACK_SECONDS,
    driver_template,
    executor_template,
    secured,
)

PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"


def application(launch: Launch) -> Manifest:
    """The SparkApplication of an attempt."""
    spark = launch.spark
    manifest = child(launch.consumer, APACHE_APPLICATION, launch.name, launch.labels[labels.LABEL_COMPONENT])
    manifest["metadata"]["labels"] = dict(launch.labels)
    return manifest | {
        "spec": {
            "deploymentMode": "ClusterMode",
            "mainClass": PYTHON_RUNNER,
            "pyFiles": spark.application.main_file,
            "driverArgs": list(spark.application.arguments),
            "sparkConf": {**launch.confs, **_conf(launch)},
            "runtimeVersions": {"sparkVersion": SPARK_VERSION},
            "driverSpec": {"podTemplateSpec": driver_template(launch)},
            "executorSpec": {"podTemplateSpec": executor_template(launch)},
            "applicationTolerations": {
                "restartConfig": {"restartPolicy": "Never"},
                "resourceRetainPolicy": "Always",
                "ttlAfterStopMillis": 1000 * (spark.history.ttl_seconds + TTL_SLACK_SECONDS),
            },
        }
    }


def _conf(launch: Launch) -> dict[str, str]:
    spark = launch.spark
    return {
        "spark.executor.instances": str(spark.executor.instances),
        **_size("driver", spark.driver),
        **_size("executor", spark.executor),
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


def _size(role: str, pod: SparkPod) -> dict[str, str]:
    return {
        f"spark.{role}.cores": str(pod.cores),
        f"spark.{role}.memory": pod.memory,
        f"spark.kubernetes.{role}.request.cores": pod.core_request or str(pod.cores),
    }
