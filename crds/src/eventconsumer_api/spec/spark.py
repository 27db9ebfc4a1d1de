"""The Spark part of the spec: triggers of batches, the program, and the output."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules, told, total
from eventconsumer_api.spec import spark_conf
from eventconsumer_api.spec.endpoints import REGISTRY_URL_PATTERN
from eventconsumer_api.spec.json_columns import TimeForm
from eventconsumer_api.spec.programs import EgressRule, EnvFroms, EnvVars, ProgramVolumes, env_total, image_rules
from eventconsumer_api.spec.scalars import SEGMENT, ImageName, JavaMemory, Quantity
from eventconsumer_api.spec.scheduling import PodFields, pod_rules
from eventconsumer_api.spec.secrets import SecretKeyRef, WorkloadIdentity

DAY_SECONDS = 86_400
IN_FLIGHT_MAX = 16
"""Maximum number of open batches: parallel batches with the same number modulo this are never open at a time."""
PROGRAMS = (
    "local:///app/eventconsumer_spark/job.py",
    "local:///app/eventconsumer_spark/streaming.py",
    "local:///app/examples/events_per_key.py",
    "local:///app/examples/events_per_window.py",
    "local:///app/examples/latest_by_key.py",
)
"""The programs of the operator's Spark image, the default first. Other modules in it are no programs."""


def other_program() -> str:
    """Why another program without an image of the user is refused, and the remedy."""
    return (
        "is no program of the operator's Spark image: set spark.application.image to an image that the operator's "
        f"administrator allows, or use one of {', '.join(PROGRAMS)}"
    )


class Trigger(Model):
    """When a Spark batch starts: at the first limit reached. Without pending files no batch starts."""

    model_config = rules(
        (
            f"!has(self.windowSeconds) || {DAY_SECONDS} % self.windowSeconds == 0",
            "spark.trigger.windowSeconds must divide a day: use 900, 3600 or 86400, for example",
        ),
        (
            "!has(self.windowSeconds) || ((!has(self.files) || self.files == 10) && (!has(self.bytes) || self.bytes == "
            "1073741824) && (!has(self.ageSeconds) || self.ageSeconds == 300) && (!has(self.schedule) || self.schedule "
            "== ''))",
            "spark.trigger.windowSeconds alone starts batches: remove files, bytes, ageSeconds and schedule",
        ),
    )

    files: int = Field(default=10, ge=1, le=100_000, description="Number of drained files not yet in a batch.")
    bytes: int = Field(default=1_073_741_824, ge=1, le=1 << 50, description="Total size of these files, bytes.")
    age_seconds: int = Field(default=300, ge=1, le=604_800, description="Age of the oldest such file, seconds.")
    schedule: str = Field(
        default="",
        max_length=100,
        pattern=r"^$|^[0-9A-Za-z*/,#?-]+( [0-9A-Za-z*/,#?-]+){4}$",
        json_schema_extra=told("use the five fields of cron, with one space between them, in UTC, such as 0 6 * * *"),
        description="Additional start times: a cron expression of five fields in UTC, such as 0 * * * *. Empty: none. "
        "To start at these times only, set the other limits high.",
    )
    window_seconds: int | None = Field(
        default=None,
        ge=60,
        le=DAY_SECONDS,
        description="Start batches at the ends of time windows instead: when all events that were enqueued in a window "
        "are in files. Length of a window, seconds: a divisor of a day, such as 900, 3600 or 86400. Windows begin at "
        "midnight UTC. Absent: the other limits start batches.",
    )


class BatchLimits(Model):
    """Limits of one batch; the remaining files wait for the next batch. And the number of batches at a time."""

    max_files: int = Field(default=10_000, ge=1, le=100_000, description="Number of files.")
    max_bytes: int = Field(default=17_179_869_184, ge=1, le=1 << 50, description="Size of the files together, bytes.")
    in_flight: int = Field(
        default=1,
        ge=1,
        le=IN_FLIGHT_MAX,
        description="Number of batches that are processed at the same time, each by an application of its own. Above 1 "
        "only for programs whose result does not depend on the order of the batches; commits are still published in "
        "order.",
    )


class Launcher(StrEnum):
    """Launcher of the applications."""

    NATIVE = "Native"
    KUBEFLOW = "Kubeflow"
    APACHE = "Apache"


class SparkMode(StrEnum):
    """Where the tasks of a batch run."""

    AUTO = "Auto"
    LOCAL = "Local"
    EXECUTORS = "Executors"


class SparkProgram(Model):
    """The PySpark program that processes a batch."""

    model_config = rules(
        total("arguments", "spark.application.arguments", 32_768),
        spark_conf.rule(),
        env_total("spark.application"),
        *image_rules("spark.application"),
        (
            f"!has(self.mainFile) || has(self.image) || self.mainFile in {list(PROGRAMS)!r}",
            f"spark.application.mainFile {other_program()}",
        ),
    )

    image: ImageName | None = Field(
        default=None,
        description="Image with the program, built FROM the operator's Spark image and allowed by the administrator. "
        "Default: the operator's Spark image.",
    )
    main_file: str = Field(
        default=PROGRAMS[0],
        max_length=1024,
        # Only below /app: some modules of Python itself run code from their arguments.
        pattern=r"^local:///app(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+\.py$",
        json_schema_extra=told("use a Python file below /app in the image, such as local:///app/job.py"),
        description="Program below /app in the image. The default writes the events of the batch to spec.spark.output. "
        "Without `image`: one of the programs of the operator's Spark image.",
    )
    arguments: list[Annotated[str, Field(max_length=4096)]] = Field(
        default=[], max_length=100, description="Arguments of the program. Never put secrets here."
    )
    conf: dict[
        Annotated[str, Field(min_length=1, max_length=253, pattern=r"^spark\.[A-Za-z0-9._-]+$")],
        Annotated[str, Field(max_length=spark_conf.VALUE_MAX)],
    ] = Field(
        default={},
        max_length=100,
        description="Spark properties, such as spark.sql.shuffle.partitions: those of the page properties.md, in "
        "the form given there. Never put secrets here.",
    )
    env: EnvVars = Field(default=[], description="Environment of the program, in the driver and in executors.")
    env_from: EnvFroms = Field(
        default=[], description="ConfigMaps and Secrets whose keys become variables, in the driver and in executors."
    )
    volumes: ProgramVolumes = Field(
        default=[], description="ConfigMaps and Secrets as files, in the driver and in executors."
    )
    egress: list[EgressRule] = Field(
        default=[],
        max_length=16,
        description="Destinations of the program, in the driver and in executors, in addition to DNS, port 443, each "
        "other and the API server. Only where the administrator has enabled network policies; without them, nothing "
        "is limited.",
    )


class Scratch(Model):
    """Storage of one pod for the files that Spark shuffles and spills (spark.local.dir)."""

    model_config = rules(
        (
            "quantity(string(self.size)).compareTo(quantity('1Mi')) >= 0",
            "scratch.size must be 1Mi or more: use 50Gi, for example",
        ),
    )

    size: Quantity = Field(
        description="Size, such as 50Gi. Without storageClassName, it is reserved on the node, as ephemeral storage."
    )
    storage_class_name: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        json_schema_extra=told("use lower-case letters, digits, dots and hyphens, as in names of Kubernetes"),
        description="Storage class of a volume for each pod, which is created and deleted with the pod. The operator's "
        "administrator must allow it. Absent: the disk of the node.",
    )


class SparkPod(PodFields):
    """Size and placement of a driver or executor."""

    cores: int = Field(default=1, ge=1, le=64, description="Task slots (threads).")
    core_request: Quantity | None = Field(default=None, description="CPU request. Default: cores.")
    cpu_limit: Quantity | None = Field(
        default=None,
        description="CPU limit, for namespaces whose quota requires one: at least coreRequest, or cores. It slows down "
        "the start and the garbage collection of a JVM. Absent: none.",
    )
    memory: JavaMemory = Field(
        default="1g", description="Heap size, such as 1g. The pod's memory is this and Spark's overhead."
    )
    scratch: Scratch | None = Field(
        default=None,
        description="Storage for the files that Spark shuffles and spills. Absent: up to 32 GiB on the disk of the "
        "node, for these files and all others of the pod.",
    )


def _cpu_rule(path: str) -> tuple[str, str]:
    """The API server refuses a pod whose CPU request is above its limit."""
    return (
        "!has(self.cpuLimit) || (has(self.coreRequest) ? quantity(string(self.cpuLimit)).compareTo(quantity(string("
        "self.coreRequest))) >= 0 : quantity(string(self.cpuLimit)).asApproximateFloat() >= double(self.cores))",
        f"{path}.cpuLimit must not be below coreRequest, or cores without coreRequest",
    )


class Driver(SparkPod):
    """Size and placement of the driver."""

    model_config = rules(*pod_rules("spark.driver"), _cpu_rule("spark.driver"))


class Executors(SparkPod):
    """Size, placement and number of executors."""

    model_config = rules(
        *pod_rules("spark.executor"),
        _cpu_rule("spark.executor"),
        (
            "!has(self.minInstances) || self.minInstances <= (has(self.instances) ? self.instances : 2)",
            "spark.executor.minInstances must not be above spark.executor.instances",
        ),
    )

    instances: int = Field(
        default=2, ge=1, le=1000, description="Number of executor pods; with minInstances the maximum."
    )
    min_instances: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Minimum number of executor pods, for dynamic allocation: Spark adds executors up to instances "
        "while tasks wait, and removes idle ones. A resident driver keeps this number while it waits. Absent: always "
        "instances, and none while a resident driver waits.",
    )


class OutputFormat(StrEnum):
    """What the shipped program writes."""

    DELTA = "Delta"
    PARQUET = "Parquet"


class BodyType(StrEnum):
    """What the shipped program makes of events' bodies."""

    BINARY = "Binary"
    TEXT = "Text"
    JSON = "Json"
    AVRO = "Avro"


class RegistryType(StrEnum):
    """Protocols of schema registries."""

    AZURE = "AzureSchemaRegistry"
    CONFLUENT = "Confluent"


class RegistryAuthentication(Model):
    """How the driver signs in at the schema registry: exactly one of the two."""

    model_config = rules(
        (
            "has(self.basicSecretRef) != has(self.workloadIdentity)",
            "registry.authentication: set exactly one of basicSecretRef and workloadIdentity",
        )
    )

    basic_secret_ref: SecretKeyRef | None = Field(
        default=None,
        description="Text <user>:<password> in a Secret, for basic authentication; a file in the driver only.",
    )
    workload_identity: WorkloadIdentity | None = Field(
        default=None,
        description="Authentication with Microsoft Entra Workload ID; the identity needs the role Schema Registry "
        "Reader.",
    )


class Registry(Model):
    """The schema registry with the schemas of events' bodies."""

    model_config = rules(
        (
            "self.type != 'AzureSchemaRegistry' || (has(self.authentication) && "
            "has(self.authentication.workloadIdentity))",
            "registry.type: AzureSchemaRegistry needs registry.authentication.workloadIdentity",
        ),
        (
            "self.type != 'Confluent' || !has(self.authentication) || !has(self.authentication.workloadIdentity)",
            "registry.authentication.workloadIdentity is for registry.type: AzureSchemaRegistry: use basicSecretRef",
        ),
    )

    type: RegistryType = Field(
        description="AzureSchemaRegistry: the id of the schema is in the content type of the event, "
        "avro/binary+<id>. Confluent: the body begins with a zero byte and the id, four bytes, big-endian."
    )
    url: str = Field(
        max_length=512,
        pattern=REGISTRY_URL_PATTERN,
        json_schema_extra=told("use a URL without a slash at the end, such as https://shop.servicebus.windows.net"),
        description="URL without a slash at the end: https://<namespace>.servicebus.windows.net, or that of a "
        "Confluent registry. The administrator allows registries (schemaRegistries).",
    )
    authentication: RegistryAuthentication | None = Field(
        default=None, description="Authentication of the driver at the registry. Absent: none."
    )


class Body(Model):
    """What the shipped program makes of events' bodies."""

    model_config = rules(
        (
            "!has(self.schema) || self.schema == '' || (has(self.type) && self.type in ['Json', 'Avro'])",
            "spark.output.body.schema is for body.type: Json and body.type: Avro",
        ),
        (
            "has(self.registry) == (has(self.type) && self.type == 'Avro')",
            "spark.output.body.registry is for body.type: Avro, which needs it",
        ),
        (
            "!has(self.times) || size(self.times) == 0 || (has(self.type) && self.type == 'Json' && has(self.schema) "
            "&& self.schema != '')",
            "spark.output.body.times is for body.type: Json with body.schema",
        ),
    )

    type: BodyType = Field(
        default=BodyType.BINARY,
        description="Binary: unchanged. Text: UTF-8. Json: parsed with body.schema, or validated and kept as text "
        "without it. Avro: decoded by the schemas of body.registry. Events with another kind of body go to a "
        "quarantine folder beside the output.",
    )
    schema_: str = Field(
        default="",
        alias="schema",
        max_length=16_384,
        description="Json: columns of the body as Spark DDL: id BIGINT NOT NULL, name STRING, at TIMESTAMP. A body "
        "with a value that does not fit exactly goes to the quarantine: see the page json-columns.md. Avro: the "
        "schema of the column body as Avro JSON (reader schema). Empty: the newest schema of the events in each batch.",
    )
    times: dict[Annotated[str, Field(min_length=1, max_length=256)], TimeForm] = Field(
        default={},
        max_length=100,
        description="Json: how TIMESTAMP columns of body.schema are written: Iso8601 (the default), such as "
        "2026-01-02T03:04:05.678Z; Iso8601Truncated, which cuts what is below a microsecond, as times of .NET and Go "
        "have; or a number since 1970: EpochSeconds, EpochMillis or EpochMicros. By the name of the column; fields of "
        "a STRUCT, also in an ARRAY or MAP, as order.paidAt.",
    )
    registry: Registry | None = Field(
        default=None,
        description="Schema registry of Avro bodies.",
    )


class SparkOutput(Model):
    """Where Spark writes, and what the shipped program writes there."""

    path: str = Field(
        max_length=1024,
        pattern=rf"^abfss?://[a-z0-9-]+@[A-Za-z0-9.-]+(:[0-9]+)?(/{SEGMENT})*/?$",
        json_schema_extra=told(
            "use abfss://<container>@<account>.dfs.core.windows.net/<folder> in the account of the sink"
        ),
        description="Folder in the sink's storage account: abfss://<container>@<account host>/<folder>.",
    )
    format: OutputFormat = Field(
        default=OutputFormat.DELTA, description="Delta: one table. Parquet: a folder batch=<n> for each batch."
    )
    body: Body = Field(default=Body(), description="Conversion of the body.")
    partition_by_date: bool = Field(
        default=False, description="Partition the output by the date (UTC) at which events were enqueued: column date."
    )
    target_file_bytes: int = Field(
        default=134_217_728,
        ge=1_048_576,
        le=1_073_741_824,
        description="Target file size, bytes. Delta: small files of earlier batches are compacted to it.",
    )


class Retry(Model):
    """Retries of a failed batch."""

    attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Failed attempts in a row before the consumer is Stalled. Attempts continue after that, one each "
        "maxBackoffSeconds.",
    )
    backoff_seconds: int = Field(
        default=30,
        ge=0,
        le=86_400,
        description="Backoff before the second attempt, seconds; doubled for each further attempt.",
    )
    max_backoff_seconds: int = Field(default=3600, ge=1, le=86_400, description="Maximum backoff, seconds.")


class UnprocessableFiles(StrEnum):
    """What becomes of a file that no attempt can process."""

    QUARANTINE = "Quarantine"
    FAIL = "Fail"


class ApplicationHistory(Model):
    """How many finished applications are kept, for their logs."""

    succeeded: int = Field(default=3, ge=0, le=100, description="Number of succeeded applications.")
    failed: int = Field(default=3, ge=0, le=100, description="Number of failed applications.")
    ttl_seconds: int = Field(default=86_400, ge=60, le=2_592_000, description="Maximum time after their end, seconds.")


class Reprocess(Model):
    """Process committed batches again, into a separate output.

    A new name starts reprocessing, and the same name never runs twice. The result is in
    `<output.path>_reprocess/<name>`, so the consumer's own output is not changed.
    """

    model_config = rules(("self.from <= self.to", "spark.reprocess.from must not be above spark.reprocess.to"))

    name: str = Field(
        min_length=1,
        max_length=20,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        json_schema_extra=told("use at most 20 lower-case letters, digits and hyphens, such as again-1"),
        description="Name of this request. A new name starts reprocessing.",
    )
    from_: int = Field(alias="from", ge=1, description="Number of the first batch.")
    to: int = Field(ge=1, description="Number of the last batch, which must be committed.")


class Spark(Model):
    """Spark applications over the drained files."""

    model_config = rules(
        (
            "!has(self.enabled) || !self.enabled || has(self.output)",
            "spark.output.path is required where spark.enabled is true",
        ),
        (
            "!has(self.mode) || self.mode != 'Local' || !has(self.launcher) || self.launcher == 'Native'",
            "spark.mode: Local needs spark.launcher: Native",
        ),
        (
            "!has(self.batch) || !has(self.batch.inFlight) || self.batch.inFlight == 1 || "
            "!has(self.idleTimeoutSeconds) || self.idleTimeoutSeconds == 0",
            "spark.idleTimeoutSeconds needs spark.batch.inFlight: 1: a resident driver processes batches one by one",
        ),
    )

    enabled: bool = Field(default=True, description="Start applications.")
    trigger: Trigger = Field(default=Trigger(), description="Conditions that start a batch.")
    batch: BatchLimits = Field(default=BatchLimits(), description="Limits of one batch.")
    launcher: Launcher = Field(
        default=Launcher.NATIVE,
        description="Native: a Job whose pod is the driver. Kubeflow: a SparkApplication sparkoperator.k8s.io/v1beta2. "
        "Apache: a SparkApplication spark.apache.org/v1. The last two must be enabled by the administrator.",
    )
    mode: SparkMode = Field(
        default=SparkMode.AUTO,
        description="Local: all tasks in the driver, driver.cores at a time. Executors: tasks in executor pods. Auto: "
        "Local up to localMaxBytes with launcher Native, otherwise Executors.",
    )
    local_max_bytes: int = Field(
        default=268_435_456,
        ge=0,
        le=1 << 50,
        description="Mode Auto: maximum size of the files of a batch that runs in the driver, bytes.",
    )
    application: SparkProgram = Field(default=SparkProgram(), description="The program.")
    driver: Driver = Field(default=Driver(), description="Size and placement of the driver.")
    executor: Executors = Field(default=Executors(), description="Size, placement and number of executors.")
    output: SparkOutput | None = Field(default=None, description="Destination of the result.")
    timeout_seconds: int = Field(
        default=3600,
        ge=60,
        le=86_400,
        description="Maximum run time of an application, seconds. It is stopped as failed after that.",
    )
    idle_timeout_seconds: int = Field(
        default=0,
        ge=0,
        le=86_400,
        description="Time for which a driver stays after a commit and waits for the next batch, seconds. A batch that "
        "a waiting driver processes has no start-up time. 0: each batch has its own driver.",
    )
    retry: Retry = Field(default=Retry(), description="Retries of a failed batch.")
    unprocessable_files: UnprocessableFiles = Field(
        default=UnprocessableFiles.QUARANTINE,
        description="Quarantine: from attempt retry.attempts on, unprocessable files are identified, reported and left "
        "out. Fail: the batch is retried until it succeeds.",
    )
    history: ApplicationHistory = Field(default=ApplicationHistory(), description="Retention of finished applications.")
    reprocess: Reprocess | None = Field(default=None, description="Process committed batches again. Absent: none.")
