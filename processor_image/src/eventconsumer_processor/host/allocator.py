"""Lets what a burst of large events took go back to the system, so that a pod's memory is what its buffers keep.

glibc stops mapping large blocks one by one once it has seen some freed, and Arrow's own pool keeps what it freed: with
events of 200 KB a host's peak was 120 MB above idle, for buffers of 16 MiB. With both off it was 32 MB.

Small blocks are another matter: events on their way come and go by the megabyte, and new pages cost several times what
copying into old ones does. So some freed memory of small blocks is kept.

So it is with the scratch memory of Arrow's Parquet writer, which takes it from the pool that the library starts with,
whatever the process sets later: 5 MiB a file, which mimalloc, the usual one, multiplied to 55 MiB with the threads of a
host. The system's cost an eighth more CPU time. jemalloc with one arena for all threads keeps little, at no cost.
"""

import ctypes
import os

MAPPED_BYTES = 128 * 1024  # blocks from this size on are mapped, and unmapped when freed: glibc's own first value
KEPT_BYTES = 16 * 1024 * 1024  # of freed small blocks: more goes back
SCRATCH = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc", "JE_ARROW_MALLOC_CONF": "narenas:1"}  # read as Arrow is loaded
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def return_freed_memory() -> None:
    """Set up this process's allocators, before it loads Arrow; where the C library is not glibc, Arrow's only."""
    for name, value in SCRATCH.items():
        os.environ.setdefault(name, value)
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
