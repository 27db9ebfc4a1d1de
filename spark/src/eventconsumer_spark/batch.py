"""The interface of a Spark program to its batch: events in, and folders for the results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from eventconsumer_api.wire.batch import BatchJob, BatchManifest
from eventconsumer_api.wire.identity import BatchFolder
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.input.reading import event_schema
from eventconsumer_spark.output.delta_table import Match, Transaction, append, merge
from eventconsumer_spark.output.folder import write_folder
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.storage.abfs import AbfsFolder


@dataclass(frozen=True)
class Batch:
    """One batch, verified and ready to be processed.

    Attributes:
        spark: The session; it may read and write the sink's storage account.
        job: The request of the operator; `job.output` is `spec.spark.output`.
        manifest: The files of this batch without unprocessable files; in a trial, the files of the trial.
        events: One row per event; columns as in `schema`.
        table: Root of the output of all batches.
        output: Folder of this batch's result below `table`; owned by this batch, so it is overwritten.
        quarantine_path: Folder of this batch for events that cannot be processed; owned by this batch.
        transaction: Names the writer of `table`; with it and the batch's number, a repeated append to a Delta table
            adds nothing (`txnAppId`, `txnVersion`).
        trial: Whether this run only searches for unprocessable files. All paths above are then in a scratch folder; a
            program must omit effects elsewhere.
    """

    spark: SparkSession
    job: BatchJob
    manifest: BatchManifest
    events: DataFrame
    table: str
    output: str
    quarantine_path: str
    transaction: str
    trial: bool = False

    def write_parquet(self, result: DataFrame) -> int:
        """Write `result` to the batch's folder, replacing files of earlier attempts; return the number of rows."""
        return write_folder(result, self.output)

    def write_delta(self, result: DataFrame) -> WriteResult:
        """Append `result` to the Delta table `table`, unless an earlier attempt did; return the rows and version.

        In a trial it goes to the scratch folder as Parquet.
        """
        if self.trial:
            return WriteResult(self.write_parquet(result))
        done = append(result, self.table, self._once, self._note)
        return WriteResult(done.rows, done.version)

    def merge_delta(
        self, result: DataFrame, on: str, update: Mapping[str, str], where: str | None = None
    ) -> WriteResult:
        """Merge `result` into the Delta table `table`, unless an earlier attempt did; return the rows and version.

        Rows without a match are inserted. In the expressions, `t` is the table and `s` the result. In a trial the
        result goes to the scratch folder as Parquet.

        Args:
            result: At most one row for each row of the table.
            on: Condition of a match.
            update: Column -> its new value in matching rows.
            where: Which matching rows are updated; None: all.

        Raises:
            ConfigurationError: `spec.spark.batch.inFlight` is above 1.
        """
        if self.manifest.parallel and not self.job.reprocess:
            raise ConfigurationError(
                "merge_delta needs the batches in order, because a later batch updates rows of an earlier one: set "
                "spec.spark.batch.inFlight: 1"
            )
        if self.trial:
            return WriteResult(self.write_parquet(result))
        done = merge(result, self.table, self._once, self._note, Match(on, update, where))
        return WriteResult(done.rows, done.version)

    @property
    def schema(self) -> StructType:
        """The columns of `events`: `EVENT_SCHEMA`, then those of `spec.sink.body` and `_error`, if there are some.

        A column that a file does not have is null there. `_error` tells why a body does not fit its columns.
        """
        return event_schema(self.job.columns)

    @property
    def _once(self) -> Transaction:
        return Transaction(self.transaction, self.manifest.number)

    @property
    def _note(self) -> dict[str, str]:
        return {"consumer": self.job.resource.path}


Program = Callable[[Batch], int | WriteResult]
"""Processes a batch and returns its result, or only the number of rows.

It may run again for the same batch, so it must overwrite, or write under `transaction` and the batch's number.
"""


@dataclass(frozen=True)
class Folders:
    """Location of the result of one batch."""

    table: AbfsFolder
    output: str
    quarantine: str

    @property
    def trials(self) -> str:
        """The folder of trials."""
        return str(_beside(self.table, "_trial"))


def folders(output: AbfsFolder, folder: str, name: str = "") -> Folders:
    """PURE: location of a batch's result in the folder of its name; with `name`, of reprocessing."""
    table = _beside(output, f"_reprocess/{name}") if name else output
    return _below(table, _beside(table, "_quarantine"), folder)


def trial_folders(real: Folders, number: int) -> Folders:
    """PURE: location of the same batch's results in a trial: all below `real.trials`."""
    scratch = _beside(real.table, f"_trial/{number}")
    return _below(scratch, _beside(scratch, "/_quarantine"), BatchFolder.VISIBLE.of(number))


def _below(table: AbfsFolder, quarantine: AbfsFolder, folder: str) -> Folders:
    return Folders(table, table.child(folder), quarantine.child(folder))


def _beside(folder: AbfsFolder, suffix: str) -> AbfsFolder:
    return AbfsFolder(folder.scheme, folder.container, folder.host, folder.path + suffix)
