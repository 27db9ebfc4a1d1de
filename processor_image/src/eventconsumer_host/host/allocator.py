"""Configures the allocators so that memory of a burst of large events is returned to the system.

By default glibc stops mapping large blocks separately once some were freed, and Arrow's own pool keeps freed memory.
With events of 200 KB and buffers of 16 MiB, a host's peak was 120 MB above idle; without both it was 32 MB.

Small blocks are different: events are allocated and freed by the megabyte, and new pages cost several times more than
copying into existing ones. So some freed memory of small blocks is kept.

Arrow's Parquet writer allocates scratch memory, 5 MiB per file, from the pool that the library starts with, even if the
process sets another pool later. With mimalloc, the default, the threads of a host multiplied it to 55 MiB. The system
allocator cost an eighth more CPU time. jemalloc with one arena for all threads keeps little memory, at no extra cost.
"""

import ctypes
import os

MAPPED_BYTES = 128 * 1024  # blocks of this size or more are mapped, and unmapped when freed: glibc's initial value
KEPT_BYTES = 16 * 1024 * 1024  # freed memory of small blocks that is kept
SCRATCH = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc", "JE_ARROW_MALLOC_CONF": "narenas:1"}  # read when Arrow is loaded
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def return_freed_memory() -> None:
    """Configure the allocators of this process before it loads Arrow; without glibc, only Arrow's."""
    for name, value in SCRATCH.items():
        os.environ.setdefault(name, value)
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
