"""Labels, annotations, paths and ports that operator, hosts and Spark jobs share."""

MANAGED_BY = "eventconsumer-operator"
FIELD_MANAGER = "eventconsumer-operator"

LABEL_NAME = "app.kubernetes.io/name"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_CONSUMER = "eventconsumer.io/consumer"
LABEL_BATCH = "eventconsumer.io/batch"
LABEL_ATTEMPT = "eventconsumer.io/attempt"

ANNOTATION_CONFIG_HASH = "eventconsumer.io/config-hash"
ANNOTATION_RESIDENT = "eventconsumer.io/resident"
"""Annotation of an application with a resident driver: a digest of the manifest, to find outdated applications."""

ANNOTATION_EXECUTOR = "eventconsumer.io/executor"
"""Annotation of a driver pod with the template of its executors, as JSON; the pod sees it as `EXECUTOR_FILE`."""

COMPONENT_HOST = "host"
COMPONENT_SPARK = "spark"
COMPONENT_PROBE = "probe"
COMPONENT_REPLAY = "replay"
COMPONENT_BATCH_REPLAY = "batch-replay"
COMPONENT_TOOL = "tool"
"""Component of a temporary pod of `kubectl eventconsumer`; the operator ignores such pods."""

HOST_PORT = 8080
CONFIG_FILE = "/etc/eventconsumer/config.json"
FLEET_KEY_FILE = "/etc/eventconsumer/fleet.pem"
"""Public key of the operator (PEM), beside the configuration but not part of its digest: a new key restarts no pod."""
EXECUTOR_FILE = "/etc/eventconsumer/executor/pod.json"
SECRETS_DIR = "/var/run/secrets/eventconsumer.io"
CONFIG_ENV = "EVENTCONSUMER_CONFIG_JSON"
BATCH_JOB_ENV = "EVENTCONSUMER_BATCH_JOB"
BATCH_MANIFEST_ENV = "EVENTCONSUMER_BATCH_MANIFEST"
"""URL of the batch's manifest (batch.manifest_url), for Spark programs in other languages than Python."""
HOST_SERVICE_ACCOUNT = "eventconsumer-host"
SPARK_SERVICE_ACCOUNT = "eventconsumer-spark"
