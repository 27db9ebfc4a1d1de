"""The drained files: destination, format, and limits."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from eventconsumer_api.shared.model import Model, rules, told
from eventconsumer_api.spec.body_columns import (
    COLUMNS_MAX,
    STATISTICS_MAX,
    BodyColumn,
    ColumnSpec,
    body_columns,
    schema_columns,
)
from eventconsumer_api.spec.column_types import SCHEMA_PATTERN, TOLD
from eventconsumer_api.spec.endpoints import NOTICE_URL_PATTERN
from eventconsumer_api.spec.scalars import NUMBER_MAX
from eventconsumer_api.spec.secrets import SecretKeyRef
from eventconsumer_api.v1alpha1.authentication import Authentication
from eventconsumer_api.v1alpha1.storage import (
    STORAGE_API_VERSION,
    BlobPrefix,
    ContainerName,
    StorageApiVersion,
    StorageUrl,
)


class Roll(Model):
    """When a file is complete: whichever limit is reached first."""

    max_bytes: int = Field(
        default=134_217_728, ge=1024, le=1_073_741_824, description="Bytes of events in memory before compression."
    )
    max_seconds: int = Field(default=60, ge=1, le=86_400, description="Age of the oldest event in the file, seconds.")
    max_events: int = Field(default=1_000_000, ge=1, le=10_000_000, description="Number of events in a file.")


class FileFormat(StrEnum):
    """Formats of drained files."""

    PARQUET = "Parquet"
    AVRO = "Avro"


class FileLayout(StrEnum):
    """Names of drained files."""

    SEQUENCE_NUMBER = "SequenceNumber"
    CAPTURE = "Capture"


class TableFormat(StrEnum):
    """Formats of the table over the drained files."""

    DELTA = "Delta"


class Table(Model):
    """A table over the drained files: hosts register each file as it is, without a copy."""

    format: TableFormat = Field(
        default=TableFormat.DELTA, description="Delta: a Delta table whose root is the folder of the files."
    )
    max_seconds: int = Field(
        default=10,
        ge=1,
        le=3600,
        description="Time between two commits to the table, seconds. Each look for new files costs one storage request "
        "for each partition.",
    )


class NoticeFormat(StrEnum):
    """Formats of notices."""

    CLOUD_EVENTS = "CloudEvents"
    EVENT_GRID = "EventGrid"


class NoticeAuthentication(Model):
    """A header whose value is in a Secret."""

    header: str = Field(
        default="Authorization",
        max_length=64,
        pattern=r"^(Authorization|aeg-sas-key|aeg-sas-token|[Xx]-[A-Za-z0-9-]+)$",
        json_schema_extra=told("use Authorization, aeg-sas-key, aeg-sas-token, or a name that begins with X-"),
        description="Name of the header: Authorization, aeg-sas-key or aeg-sas-token for Azure Event Grid, or a name "
        "that starts with X-.",
    )
    header_secret_ref: SecretKeyRef = Field(
        description="The whole value of the header, such as Bearer <token>, in a Secret, mounted as a file and read by "
        "the hosts only."
    )


NoticeUrl = Annotated[
    str,
    Field(
        max_length=512,
        pattern=NOTICE_URL_PATTERN,
        json_schema_extra=told("use a URL without a query, such as https://hooks.example.com/files"),
    ),
]


class SinkBodyType(StrEnum):
    """What hosts make of events' bodies."""

    BINARY = "Binary"
    JSON = "Json"


class SinkBody(Model):
    """Columns that hosts make of events' bodies, beside the column body."""

    model_config = rules(
        (
            "(self.type == 'Json') == (has(self.columns) || has(self.schema))",
            "sink.body: type: Json needs columns or schema, and they need type: Json",
        ),
        (
            "!has(self.columns) || !has(self.schema)",
            "sink.body: schema is the short form of columns: remove one of them",
        ),
        (
            "!has(self.columns) || [self.columns.map(each, each.name.lowerAscii())].all(names, names.all(name, "
            "names.indexOf(name) == names.lastIndexOf(name)))",
            "sink.body.columns: two columns have the same name, without case: use another name",
        ),
        (
            f"!has(self.columns) || self.columns.filter(each, each.statistics).size() <= {STATISTICS_MAX}",
            f"sink.body.columns: at most {STATISTICS_MAX} columns have statistics: remove statistics of others",
        ),
        (
            "!has(self.schema) || !has(oldSelf.schema) || self.schema == oldSelf.schema || "
            "self.schema.startsWith(oldSelf.schema + ',')",
            "sink.body.schema: only a column more is an edit: keep the text, and add a comma and the column; to remove "
            "a column, use sink.body.columns instead",
        ),
        *(
            (
                f"!has(self.{new}) || !has(oldSelf.{old}) || {of}.columns.all(each, (!has(each.path) || "
                "each.path == '$.' + each.name) && (!has(each.from) || each.from == 'Iso8601'))",
                f"sink.body.{new} cannot take the place of {old} together with a path or from, which {old} "
                f"{relation}: files may have values of another one; keep {old}",
            )
            for new, old, of, relation in (
                ("columns", "schema", "self", "does not have"),
                ("schema", "columns", "oldSelf", "has"),
            )
        ),
    )

    type: SinkBodyType = Field(
        default=SinkBodyType.BINARY,
        description="Binary: the column body alone. Json: the members of a JSON object are columns, too. A value that "
        "does not fit its column exactly is null there, and the column _error names the column: see the page "
        "concepts/columns.md.",
    )
    columns: Annotated[
        list[ColumnSpec] | None,
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ] = Field(
        default=None,
        min_length=1,
        max_length=COLUMNS_MAX,
        description="Columns. One can be added, or removed: then it stays in the table and is null, and its name stays "
        "taken. Its type, path and form cannot change.",
    )
    schema_: str | None = Field(
        default=None,
        alias="schema",
        max_length=16_384,
        pattern=SCHEMA_PATTERN,
        json_schema_extra=told(f"use names and types, such as order STRING, cents BIGINT NOT NULL; {TOLD}"),
        description="Short form of columns, as Spark DDL: order STRING, cents BIGINT NOT NULL. NOT NULL: required.",
    )

    @model_validator(mode="after")
    def _columns_exist(self) -> Self:
        """What the schema of the resource cannot say, such as brackets of nested types."""
        try:
            self.body_columns()
        except ValueError as error:
            raise PydanticCustomError("columns", "{cause}", {"cause": str(error)}) from None
        return self

    def body_columns(self) -> tuple[BodyColumn, ...]:
        """The columns; of type Binary none."""
        return schema_columns(self.schema_) if self.schema_ else body_columns(self.columns or ())


class Notices(Model):
    """A notice by HTTP for each drained file: at least once, in the order of the files of each partition."""

    url: NoticeUrl = Field(
        description="Endpoint that receives a POST for each file, without user, password and query. The administrator "
        "allows endpoints (noticeEndpoints)."
    )
    format: NoticeFormat = Field(
        default=NoticeFormat.CLOUD_EVENTS,
        description="CloudEvents: CloudEvents 1.0, structured mode. EventGrid: an array with one event in the schema "
        "of Microsoft.EventHub.CaptureFileCreated.",
    )
    authentication: NoticeAuthentication | None = Field(
        default=None, description="Authentication of hosts at the endpoint. Absent: none."
    )


class Retention(Model):
    """How long drained files are kept: the leading host replaces older ones by tombstones."""

    model_config = rules(
        (
            "has(self.days) || has(self.bytes)",
            "sink.retention needs a limit: set days, bytes, or both",
        ),
    )

    days: int | None = Field(
        default=None,
        ge=1,
        le=36_500,
        description="Time for which a file is kept after it was written, days. Absent: no limit.",
    )
    bytes: int | None = Field(
        default=None,
        ge=1,
        le=NUMBER_MAX,
        description="Total size of the files that are kept, bytes: the oldest files of all partitions are removed "
        "first. Absent: no limit.",
    )
    keep_uncommitted: bool = Field(
        default=True,
        description="Keep files that no committed Spark batch has processed, and files whose notice is not "
        "acknowledged, beyond the limits. False only without Spark. The last file of each partition, files that are "
        "not registered in the table yet, and files of an open batch are always kept.",
    )


class Sink(Model):
    """Destination of drained files."""

    model_config = rules(
        (
            "has(self.authentication.connectionStringSecretRef) || has(self.storageAccountUrl)",
            "sink: storageAccountUrl is required with workloadIdentity",
        ),
        (
            "self.container == oldSelf.container",
            "sink.container cannot change: a new chain of files would start; create another EventConsumer",
        ),
        (
            "(has(self.prefix) ? self.prefix : '') == (has(oldSelf.prefix) ? oldSelf.prefix : '')",
            "sink.prefix cannot change: a new chain of files would start; create another EventConsumer",
        ),
        (
            "self.format == oldSelf.format && self.layout == oldSelf.layout",
            "sink.format and sink.layout cannot change: a new chain of files would start; create another EventConsumer",
        ),
        (
            "self.layout != 'Capture' || self.format == 'Avro'",
            "sink.layout: Capture is the layout of Event Hubs Capture, which writes Avro: set sink.format to Avro",
        ),
        (
            "!has(self.emptyFiles) || !self.emptyFiles || self.layout == 'Capture'",
            "sink.emptyFiles needs sink.layout: Capture",
        ),
        (
            "!has(self.table) || self.format == 'Parquet'",
            "sink.table registers Parquet files: set sink.format to Parquet and sink.layout to SequenceNumber, or "
            "remove sink.table",
        ),
        (
            "!has(self.body) || self.body.type != 'Json' || self.format == 'Parquet'",
            "sink.body makes columns of Parquet files: set sink.format to Parquet and sink.layout to SequenceNumber, "
            "or remove sink.body",
        ),
    )

    storage_account_url: StorageUrl | None = Field(
        default=None, description="Blob endpoint, such as https://shop.blob.core.windows.net."
    )
    storage_api_version: StorageApiVersion | None = Field(
        default=None, description=f"{STORAGE_API_VERSION} Spark's connector (ABFS) has a version of its own."
    )
    container: ContainerName = Field(description="Container of the drained files; created if missing.")
    prefix: BlobPrefix = Field(default="", description="Folder of the files. Empty: <namespace>/<name>.")
    authentication: Authentication = Field(description="Authentication of hosts and Spark at the storage account.")
    format: FileFormat = Field(
        default=FileFormat.PARQUET, description="Parquet (zstd), or Avro in the schema of Event Hubs Capture."
    )
    layout: FileLayout = Field(
        default=FileLayout.SEQUENCE_NUMBER,
        description="SequenceNumber: files are named by sequence number. Capture: files are named by time, in the "
        "default form of Event Hubs Capture, with a commit record for each file.",
    )
    empty_files: bool = Field(
        default=False, description="Layout Capture: write an empty file for each roll.maxSeconds without events."
    )
    body: SinkBody | None = Field(
        default=None, description="Columns that hosts make of events' bodies. Absent: the column body alone."
    )
    roll: Roll = Field(default=Roll(), description="Limits of a file; the first limit reached completes it.")
    table: Table | None = Field(
        default=None,
        description="Table over the drained files. Absent: none; an existing table stays as it is.",
    )
    notices: Notices | None = Field(
        default=None,
        description="Notices about drained files, from the files on that are written after this field is set. "
        "Absent: none.",
    )
    retention: Retention | None = Field(
        default=None,
        description="Limits after which the content of drained files is removed. Absent: all files are kept.",
    )
