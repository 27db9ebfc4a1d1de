"""Environment of all drivers, and pod templates for launchers that submit in cluster mode. Pure.

The templates contain what Spark properties cannot express. Spark adds names, images, sizes, ports, arguments and
variables. The pods comply with the restricted Pod Security Standard, and need no webhook.
"""

from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.batch import manifest_url
from eventconsumer_api.mounts import SINK_SECRET, secret_mount, secret_volume
from eventconsumer_api.podsecurity import container_security, pod_security
from eventconsumer_operator.resource.pods import WORKLOAD_IDENTITY_LABEL, downward
from eventconsumer_operator.spark.launch import Launch

SPARK_VERSION = "4.1.1"
"""Version of the Spark image, for launchers that require it."""
DRIVER_CONTAINER = "spark-kubernetes-driver"
EXECUTOR_CONTAINER = "spark-kubernetes-executor"
# The operator deletes earlier. This is for times without an operator, and late enough to observe a commit first.
TTL_SLACK_SECONDS = 600
_DRIVER_GRACE_SECONDS = 30


def driver_template(launch: Launch) -> dict[str, Any]:
    """The template of the driver pod. The kubelet stops it after spec.spark.timeoutSeconds."""
    identity = WORKLOAD_IDENTITY_LABEL if launch.config.sink.credential.client_id else {}
    # Without its Secret a driver would fail: so the volume is not optional, and the pod waits for the Secret.
    secret = secret_volume(SINK_SECRET, launch.config.sink.credential, optional=False)
    return {
        "metadata": {"labels": {**launch.labels, **identity}},
        "spec": {
            "serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,
            "automountServiceAccountToken": True,  # the driver creates the executor pods
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _DRIVER_GRACE_SECONDS,
            "activeDeadlineSeconds": launch.spark.timeout_seconds,
            "securityContext": pod_security(),
            "containers": [
                {
                    "name": DRIVER_CONTAINER,
                    "env": driver_environment(launch),
                    "securityContext": container_security(),
                    "volumeMounts": [
                        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
                        *([secret_mount(SINK_SECRET)] if secret else []),
                    ],
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {}}, *([secret] if secret else [])],
        },
    }


def executor_template(launch: Launch) -> dict[str, Any]:
    """The template of executor pods, equal to that of the native launcher in the Spark image."""
    return {
        "metadata": {"labels": dict(launch.labels)},
        "spec": {
            "serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,  # for workload identity; without the API token
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security(),
            "containers": [
                {
                    "name": EXECUTOR_CONTAINER,
                    "securityContext": container_security(),
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }


def driver_environment(launch: Launch) -> list[dict[str, Any]]:
    """Environment of every driver; it contains no secret."""
    # A replay has several manifests, which the driver finds itself.
    one = launch.batch.replay is None
    return [
        {"name": labels.BATCH_JOB_ENV, "value": launch.batch.model_dump_json(by_alias=True)},
        *([{"name": labels.BATCH_MANIFEST_ENV, "value": manifest_url(launch.batch)}] if one else []),
        downward("POD_NAME", "metadata.name"),
        downward("POD_NAMESPACE", "metadata.namespace"),
        downward("POD_IP", "status.podIP"),
    ]


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
