"""What drivers are told whoever launches them, and the pods of launchers that submit in cluster mode. Pure.

The templates say what Spark's settings cannot say of driver and executors. Spark merges them with what it makes itself:
names, images, sizes, ports, its arguments and variables. Both are admitted where the restricted Pod Security Standard
is enforced. No webhook is needed for any of it.
"""

from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.batch import manifest_url
from eventconsumer_api.mounts import SINK_SECRET, secret_mount, secret_volume
from eventconsumer_api.podsecurity import container_security, pod_security
from eventconsumer_operator.resource.pods import WORKLOAD_IDENTITY_LABEL, downward
from eventconsumer_operator.spark.launch import Launch

SPARK_VERSION = "4.1.1"
"""Of the Spark image; launchers ask for it."""
DRIVER_CONTAINER = "spark-kubernetes-driver"
EXECUTOR_CONTAINER = "spark-kubernetes-executor"
# The operator cleans up earlier. This is for a time without one, and late enough for a commit to be seen first.
TTL_SLACK_SECONDS = 600
_DRIVER_GRACE_SECONDS = 30


def driver_template(launch: Launch) -> dict[str, Any]:
    """The template of the driver's pod. The kubelet ends it after spec.spark.timeoutSeconds, whoever made it."""
    identity = WORKLOAD_IDENTITY_LABEL if launch.config.sink.credential.client_id else {}
    # Without its Secret a driver can only fail: so it waits for it (not optional).
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
    """The template of executors' pods: as those of the native launcher, which the Spark image brings."""
    return {
        "metadata": {"labels": dict(launch.labels)},
        "spec": {
            "serviceAccountName": labels.SPARK_SERVICE_ACCOUNT,  # for workload identity; the API token stays out
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
    """What every driver is told, whoever launched it. No secret in it."""
    # A replay has several manifests.
    one = launch.batch.replay is None
    return [
        {"name": labels.BATCH_JOB_ENV, "value": launch.batch.model_dump_json(by_alias=True)},
        *([{"name": labels.BATCH_MANIFEST_ENV, "value": manifest_url(launch.batch)}] if one else []),
        downward("POD_NAME", "metadata.name"),
        downward("POD_NAMESPACE", "metadata.namespace"),
        downward("POD_IP", "status.podIP"),
    ]


def secured() -> dict[str, str]:
    """What the image's driver sets in any case, said in the resource too, so that it can be seen there.

    The storage credential travels from driver to executors: only executors may connect, and the traffic is encrypted.
    Not with AES/GCM: Spark 4.1.1 then drops every message after the first: executors never register (SPARK-56227).
    """
    return {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/CTR/NoPadding",
        "spark.ui.enabled": "false",  # a web server without a password
    }
