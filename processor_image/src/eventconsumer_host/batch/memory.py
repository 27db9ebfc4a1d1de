"""The size of a batch manifest that fits into the memory of the process."""

MANIFEST_MAX_BYTES = 64 * 1024 * 1024  # the limit of the Spark driver; 100,000 files need about 25 MB
_PROGRAM_BYTES = 100 * 1024 * 1024  # measured: a probe takes 80 MB, mostly code
_TIMES = 15  # measured: a file takes 250 bytes in a manifest and 3.7 KiB in memory


def manifest_limit(memory: int | None) -> int:
    """The greatest size of a manifest that is read, bytes.

    Args:
        memory: Memory limit of the container, bytes; None: none.
    """
    if memory is None:
        return MANIFEST_MAX_BYTES
    return min(MANIFEST_MAX_BYTES, max(0, memory - _PROGRAM_BYTES) // _TIMES)
