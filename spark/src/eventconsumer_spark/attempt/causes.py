"""PURE: the cause of a failed batch in one line, and whether the cause can be in its files.

A search for files costs many runs, and excludes files at the end. So it must not begin for a transient cause (machines,
memory, network, storage, permissions), or for a cause that is known to be in the program. For all other errors the
search decides: files count as unprocessable only if other files pass.
"""

import re
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from eventconsumer_api.shared.redaction import redact
from eventconsumer_spark.errors import CountMismatchError, SparkJobError

_NOT_IN_DATA = re.compile(
    # Memory, executors, disks.
    r"OutOfMemory|Java heap space|GC overhead|MemoryError|ExecutorLostFailure|ExecutorDeadException|Executor heartbeat"
    r"|Python worker exited unexpectedly|FetchFailed|MetadataFetchFailed|No space left on device|Too many open files"
    r"|SparkContext (was|has been) (shut down|stopped)|stopped SparkContext"
    r"|JOB_CANCELLED|[Ss]tage \d+ (was )?cancelled|InterruptedException"
    # Network and storage.
    r"|java\.net\.|javax\.net\.|TimeoutException|azurebfs\.|AzureException|AccessControlException|AccessDenied"
    r"|FileNotFoundException|FILE_NOT_EXIST|PATH_NOT_FOUND|ConnectionError|ConnectionRefused"
    # The image, the program, another writer of the table.
    r"|ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError|DATA_SOURCE_NOT_FOUND|ModuleNotFoundError"
    r"|ImportError|NameError|SyntaxError|AnalysisException|PARSE_SYNTAX_ERROR|delta\.(exceptions\.)?\w*Concurrent"
)
_TEXT = 200_000  # Maximum length of an error to match: traces of many tasks can be long.
_DEPTH = 20


def lies_in_data(error: BaseException) -> bool:
    """Whether other files might have passed."""
    if isinstance(error, SparkJobError):
        # The file is unchanged since it was frozen, but has another number of events than its metadata.
        return isinstance(error, CountMismatchError)
    if isinstance(error, MemoryError | ImportError | NameError | SyntaxError | OSError):
        return False
    if type(error).__module__.startswith(("azure.", "requests.", "urllib3.")):
        return False
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return False  # The JVM has ended, or does not have the requested class.
    return not _NOT_IN_DATA.search("\n".join(_statements(error))[:_TEXT])


def root_cause(error: BaseException) -> str:
    """One redacted line; for a Java error, the line of the innermost cause."""
    cause: Any = _java(error)
    if cause is None:
        text = f"{type(error).__name__}: {error}"
    else:
        for _ in range(_DEPTH):
            if (inner := cause.getCause()) is None:
                break
            cause = inner
        text = str(cause.toString())
    return redact(next((line for line in text.splitlines() if line.strip()), type(error).__name__))


def _statements(error: BaseException) -> list[str]:
    """Messages of an error and its causes, without stack frames, which name unrelated classes."""
    said = [f"{type(error).__name__}: {error}"]
    java = _java(error)
    for _ in range(_DEPTH):
        if java is None:
            break
        said.append(str(java.toString()))
        java = java.getCause()
    return [line for text in said for line in text.splitlines() if not line.lstrip().startswith("at ")]


def _java(error: BaseException) -> Any:
    """The Java exception of a PySpark error; None if there is none."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return getattr(error, "_origin", None)
