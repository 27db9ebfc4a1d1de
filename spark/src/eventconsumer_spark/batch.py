"""A batch as a Spark program sees it: events in, and folders for what becomes of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from eventconsumer_api.batch import BatchJob, BatchManifest
from eventconsumer_spark.output.delta_table import Match, Transaction, append, merge
from eventconsumer_spark.output.folder import write_folder
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.storage.abfs import AbfsFolder


@dataclass(frozen=True)
class Batch:
    """One batch, verified and ready to be processed.

    Attributes:
        spark: The session; it may read and write the sink's storage account.
        job: What the operator asks for; `job.output` is `spec.spark.output`.
        manifest: The files of this batch, those that cannot be processed left out; in a trial those that are tried.
        events: One row an event; columns as in `EVENT_SCHEMA`.
        table: Root of the output of all batches.
        output: Folder of this batch's result below `table`; owned by this batch, so it is overwritten.
        quarantine_path: Folder of this batch for events that cannot be processed; owned by this batch.
        transaction: Names the writer of `table`; with the batch's number, it makes a repeated append to a Delta table
            add nothing (`txnAppId`, `txnVersion`).
        trial: Whether this run only finds out which files cannot be processed. All of the paths above are then in a
            scratch folder; a program with effects elsewhere must hold them back.
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
        """Write `result` to the batch's folder, replacing what an earlier attempt left; return the number of rows."""
        return write_folder(result, self.output)

    def write_delta(self, result: DataFrame) -> WriteResult:
        """Append `result` to the Delta table `table`, unless an earlier attempt at this batch did; say what is there.

        In a trial it goes to the scratch folder as Parquet.
        """
        if self.trial:
            return WriteResult(self.write_parquet(result))
        done = append(result, self.table, self._once, self._note)
        return WriteResult(done.rows, done.version)

    def merge_delta(
        self, result: DataFrame, on: str, update: Mapping[str, str], where: str | None = None
    ) -> WriteResult:
        """Merge `result` into the Delta table `table`, unless an earlier attempt at this batch did; say what is there.

        A row that matches none is inserted. In the expressions, `t` is the table and `s` the result. In a trial the
        result goes to the scratch folder as Parquet.

        Args:
            result: At most one row for each row of the table.
            on: When rows match.
            update: Column -> its new value, where rows match.
            where: Which matching rows are updated; None: all.
        """
        if self.trial:
            return WriteResult(self.write_parquet(result))
        done = merge(result, self.table, self._once, self._note, Match(on, update, where))
        return WriteResult(done.rows, done.version)

    @property
    def _once(self) -> Transaction:
        return Transaction(self.transaction, self.manifest.number)

    @property
    def _note(self) -> dict[str, str]:
        return {"consumer": self.job.resource.path}


Program = Callable[[Batch], int | WriteResult]
"""Processes a batch and says what it wrote, or only how many rows.

It may run again for the same batch, so it must overwrite, or write under `transaction` and the batch's number.
"""


@dataclass(frozen=True)
class Folders:
    """Where the result of one batch goes."""

    table: AbfsFolder
    output: str
    quarantine: str

    @property
    def trials(self) -> str:
        """The folder that trials write to, and nothing else."""
        return str(_beside(self.table, "_trial"))


def folders(output: AbfsFolder, number: int, nonce: str = "") -> Folders:
    """PURE: where a batch's result goes; with `nonce` that of a replay.

    Spark reads `_batch` as a column of the whole output.
    """
    table = _beside(output, f"_replays/{nonce}") if nonce else output
    return _below(table, _beside(table, "_quarantine"), number)


def trial_folders(real: Folders, number: int) -> Folders:
    """PURE: where the same batch writes while it is only tried: everything is below `real.trials`."""
    scratch = _beside(real.table, f"_trial/{number}")
    return _below(scratch, _beside(scratch, "/_quarantine"), number)


def _below(table: AbfsFolder, quarantine: AbfsFolder, number: int) -> Folders:
    return Folders(table, table.child(f"_batch={number}"), quarantine.child(f"_batch={number}"))


def _beside(folder: AbfsFolder, suffix: str) -> AbfsFolder:
    return AbfsFolder(folder.scheme, folder.container, folder.host, folder.path + suffix)
