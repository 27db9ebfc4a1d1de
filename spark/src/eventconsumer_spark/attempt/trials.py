"""What to do with a batch that fails: try parts of it, and find the files that cannot be processed.

A trial runs the program over some of the files, into a scratch folder that is deleted afterwards; nothing of it counts.
What is left out is named in the commit, and stays where it is in the sink.
"""

import logging
from collections.abc import Sequence

from pyspark.sql import SparkSession

from eventconsumer_api.batch import BatchFile
from eventconsumer_spark.attempt.attempt import Attempt
from eventconsumer_spark.attempt.causes import lies_in_data, root_cause
from eventconsumer_spark.attempt.commit import LeftOut
from eventconsumer_spark.attempt.poison import search
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
        program: What fails; None: a program that reads the batch itself, so that only reading can be tried.
    """

    def __init__(self, attempt: Attempt, spark: SparkSession, program: Program | None) -> None:
        self._attempt = attempt
        self._spark = spark
        self._program = program
        self._runs = 0

    def left_out(self, first: Exception) -> LeftOut:
        """The files that make the batch fail.

        Raises:
            Exception: `first`, where it is not the files: every one of them fails alone.
            SearchError: No single file fails, or the search took too many runs.
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
            log.error("every file of batch %d fails alone: the fault is not in the files", self._attempt.number)
            raise first
        for path, cause in causes.items():
            log.error("batch %d continues without %s: %s", self._attempt.number, path, cause)
        path = next(iter(causes))
        return LeftOut(tuple(by_path[path] for path in causes), f"{path}: {causes[path]}")

    def _fails(self, files: Sequence[BatchFile]) -> str | None:
        """Run the program over `files`; why it fails, None where it does not."""
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
        """Whether a file cannot be read, whatever the program makes of it."""
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
