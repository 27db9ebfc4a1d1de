"""Trials of a failing batch: run parts of it to find the files that cannot be processed.

A trial runs the program over some of the files, into a scratch folder that is deleted afterwards; its results do not
count. The commit names the excluded files, which stay in the sink.
"""

import logging
from collections.abc import Sequence

from pyspark.sql import SparkSession

from eventconsumer_api.wire.batch import BatchFile
from eventconsumer_spark.attempt.attempt import Attempt
from eventconsumer_spark.attempt.causes import lies_in_data, root_cause
from eventconsumer_spark.attempt.commit import LeftOut
from eventconsumer_spark.attempt.unprocessable import search
from eventconsumer_spark.batch import Batch, Program
from eventconsumer_spark.errors import SearchError
from eventconsumer_spark.input.reading import check_count
from eventconsumer_spark.output.folder import remove_folder

log = logging.getLogger("eventconsumer.spark")


class Trials:
    """Trials of one batch.

    Args:
        attempt: The batch, claimed.
        spark: The session.
        program: The failing program; None: the program reads the batch itself, so only reading can be tried.
    """

    def __init__(self, attempt: Attempt, spark: SparkSession, program: Program | None) -> None:
        self._attempt = attempt
        self._spark = spark
        self._program = program
        self._runs = 0

    def left_out(self, first: Exception) -> LeftOut:
        """The files that make the batch fail.

        Raises:
            Exception: `first`, if the cause is not in the files: every file fails alone.
            SearchError: No single file fails, or the search reached its limit of runs.
        """
        files = self._attempt.files
        log.warning(
            "batch %d fails: %s: searching the files that make it fail", self._attempt.number, root_cause(first)
        )
        by_path = {file.path: file for file in files}
        try:
            causes = search(list(by_path), lambda paths: self._fails([by_path[path] for path in paths]))
        except SearchError as error:
            raise SearchError(f"{root_cause(first)}; of its {len(files)} files, {error}") from first
        if len(causes) == len(files) and not (len(files) == 1 and self._unreadable(files[0])):
            log.error("every file of batch %d fails alone: the cause is not in the files", self._attempt.number)
            raise first
        for path, cause in causes.items():
            log.error("batch %d excludes %s: %s", self._attempt.number, path, cause)
        path = next(iter(causes))
        return LeftOut(tuple(by_path[path] for path in causes), f"{path}: {causes[path]}")

    def _fails(self, files: Sequence[BatchFile]) -> str | None:
        """Run the program over `files`; return the cause of a failure, or None."""
        self._runs += 1
        log.info("batch %d: trial %d, over %d files", self._attempt.number, self._runs, len(files))
        batch = self._attempt.batch(self._spark, files, trial=True)
        try:
            check_count(batch.events, batch.manifest)
            (self._program or _read_all)(batch)
        except Exception as error:
            if not lies_in_data(error):
                raise
            return root_cause(error)
        finally:
            self._clean()
        return None

    def _unreadable(self, file: BatchFile) -> bool:
        """Whether a file cannot be read, independent of the program."""
        batch = self._attempt.batch(self._spark, [file], trial=True)
        try:
            check_count(batch.events, batch.manifest)
            _read_all(batch)
        except Exception as error:
            if not lies_in_data(error):
                raise
            return True
        return False

    def _clean(self) -> None:
        remove_folder(self._spark, self._attempt.folders.trials)


def _read_all(batch: Batch) -> int:
    batch.events.write.format("noop").mode("overwrite").save()
    return 0
