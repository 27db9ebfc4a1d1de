"""Which failures start a search for files. Java's errors are taken from Spark's own text, as its exceptions give it."""

import pytest
from azure.core.exceptions import ServiceRequestError
from py4j.protocol import Py4JError, Py4JNetworkError

from eventconsumer_spark.attempt.causes import lies_in_data, root_cause
from eventconsumer_spark.errors import ClaimLostError, CountMismatchError, FilesChangedError
from eventconsumer_storage.errors import StorageError


class Java:
    """A Java exception as the bridge to Java shows it."""

    def __init__(self, text: str, cause: "Java | None" = None) -> None:
        self._text = text
        self._cause = cause

    def toString(self) -> str:  # noqa: N802
        """Class and message."""
        return self._text

    def getCause(self) -> "Java | None":  # noqa: N802
        """What is behind it."""
        return self._cause


class CapturedError(Exception):
    """An error of PySpark with the Java exception behind it."""

    def __init__(self, origin: Java) -> None:
        super().__init__(origin.toString())
        self._origin = origin


NOT_PARQUET = Java(
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most "
    "recent failure: Lost task 0.3 in stage 1.0 (TID 4) (10.0.0.7 executor 1): org.apache.spark.SparkException: "
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file abfss://drained@shop.blob.core.windows.net/a.\n"
    "\tat org.apache.hadoop.fs.azurebfs.services.AbfsInputStream.read(AbfsInputStream.java:1)\n"
    "\tat java.net.Socket.read(Socket.java:1)",
    Java("java.lang.RuntimeException: a is not a Parquet file. Expected magic number at tail, but found [1, 2, 3, 4]"),
)


@pytest.mark.parametrize(
    "error",
    [
        CapturedError(NOT_PARQUET),
        CapturedError(Java("org.apache.parquet.io.ParquetDecodingException: Can not read value at 1 in block 0")),
        CapturedError(Java("java.io.EOFException: Reached the end of stream with 12 bytes left to read")),
        CapturedError(
            Java("org.apache.spark.SparkDateTimeException: [CAST_INVALID_INPUT] The value 'x' cannot be cast")
        ),
        CountMismatchError("the 1 files of batch 1 hold 3 events"),
        ValueError("event 17 has no amount"),
        ZeroDivisionError("division by zero"),
        KeyError("amount"),
    ],
)
def test_may_lie_in_the_files(error: Exception) -> None:
    assert lies_in_data(error)


@pytest.mark.parametrize(
    "error",
    [
        StorageError("cannot read x"),
        FilesChangedError("x is missing"),
        ClaimLostError("lost"),
        MemoryError(),
        ImportError("no module"),
        NameError("name 'x' is not defined"),
        ConnectionResetError("reset"),
        ServiceRequestError("no route"),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("x does not exist in the JVM"),
        CapturedError(
            Java("org.apache.spark.SparkException: Job aborted", Java("java.lang.OutOfMemoryError: Java heap space"))
        ),
        CapturedError(
            Java("org.apache.spark.SparkException: ExecutorLostFailure (executor 1 exited caused by one of the")
        ),
        CapturedError(Java("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")),
        CapturedError(Java("x", Java("java.net.UnknownHostException: shop.blob.core.windows.net"))),
        CapturedError(Java("org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException: 503, PUT")),
        CapturedError(Java("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] x")),
        CapturedError(Java("io.delta.exceptions.ConcurrentAppendException: files were added")),
        CapturedError(Java("java.io.IOException: No space left on device")),
    ],
)
def test_does_not_lie_in_the_files(error: Exception) -> None:
    assert not lies_in_data(error)


def test_root_cause_is_the_innermost_and_one_line() -> None:
    assert root_cause(CapturedError(NOT_PARQUET)).startswith("java.lang.RuntimeException: a is not a Parquet file")
    assert root_cause(ValueError("first\nsecond")) == "ValueError: first"
    assert "c2VjcmV0" not in root_cause(ValueError("AccountKey=c2VjcmV0c2VjcmV0c2VjcmV0;x"))
