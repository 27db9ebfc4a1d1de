"""Which failures start a search for files. Java's errors are taken from Spark's own text, as its exceptions give it."""

from itertools import repeat

import pytest
from azure.core.exceptions import ServiceRequestError
from py4j.protocol import Py4JError, Py4JNetworkError

from eventconsumer_spark.attempt.causes import lies_in_data, root_cause
from eventconsumer_spark.errors import ClaimLostError, CountMismatchError, FilesChangedError, RegistryError
from eventconsumer_storage.errors import StorageError


class Java:
    """A Java exception as the bridge to Java shows it."""

    def __init__(self, text: str, cause: "Java | None" = None) -> None:
        self.toString = lambda: text
        self.getCause = lambda: cause


class CapturedError(Exception):
    """An error of PySpark with the Java exception behind it."""

    def __init__(self, text: str, cause: str | None = None) -> None:
        super().__init__(text)
        self._origin = Java(text, None if cause is None else Java(cause))


NOT_PARQUET = CapturedError(
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most "
    "recent failure: Lost task 0.3 in stage 1.0 (TID 4) (10.0.0.7 executor 1): org.apache.spark.SparkException: "
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file abfss://drained@shop.blob.core.windows.net/a.\n"
    "\tat org.apache.hadoop.fs.azurebfs.services.AbfsInputStream.read(AbfsInputStream.java:1)\n"
    "\tat java.net.Socket.read(Socket.java:1)",
    "java.lang.RuntimeException: a is not a Parquet file. Expected magic number at tail, but found [1, 2, 3, 4]",
)
IN_THE_FILES = [
    NOT_PARQUET,
    CapturedError("org.apache.parquet.io.ParquetDecodingException: Can not read value at 1 in block 0"),
    CapturedError("java.io.EOFException: Reached the end of stream with 12 bytes left to read"),
    CapturedError("org.apache.spark.SparkDateTimeException: [CAST_INVALID_INPUT] The value 'x' cannot be cast"),
    CountMismatchError("the 1 files of batch 1 hold 3 events"),
    ValueError("event 17 has no amount"),
    ZeroDivisionError("division by zero"),
    KeyError("amount"),
]
ELSEWHERE = [
    StorageError("cannot read x"),
    FilesChangedError("x is missing"),
    ClaimLostError("lost"),
    RegistryError("the registry does not respond"),
    MemoryError(),
    ImportError("no module"),
    NameError("name 'x' is not defined"),
    ConnectionResetError("reset"),
    ServiceRequestError("no route"),
    Py4JNetworkError("Answer from Java side is empty"),
    Py4JError("x does not exist in the JVM"),
    CapturedError("org.apache.spark.SparkException: Job aborted", "java.lang.OutOfMemoryError: Java heap space"),
    CapturedError("org.apache.spark.SparkException: ExecutorLostFailure (executor 1 exited caused by one of the"),
    CapturedError("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"),
    CapturedError("x", "java.net.UnknownHostException: shop.blob.core.windows.net"),
    CapturedError("org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException: 503, PUT"),
    CapturedError("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] x"),
    CapturedError("io.delta.exceptions.ConcurrentAppendException: files were added"),
    CapturedError("java.io.IOException: No space left on device"),
]


@pytest.mark.parametrize(("error", "in_files"), [*zip(IN_THE_FILES, repeat(True)), *zip(ELSEWHERE, repeat(False))])
def test_which_errors_may_lie_in_the_files(error: Exception, in_files: bool) -> None:
    assert lies_in_data(error) == in_files


def test_root_cause_is_the_innermost_and_one_line() -> None:
    assert root_cause(NOT_PARQUET).startswith("java.lang.RuntimeException: a is not a Parquet file")
    assert root_cause(ValueError("first\nsecond")) == "ValueError: first"
    assert "c2VjcmV0" not in root_cause(ValueError("AccountKey=c2VjcmV0c2VjcmV0c2VjcmV0;x"))
