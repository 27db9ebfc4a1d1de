"""Lets what a burst of large events took go back to the system, so that a pod's memory is what its buffers keep.

glibc stops mapping large blocks one by one once it has seen some freed, and Arrow's own pool keeps what it freed: with
events of 200 KB a host's peak was 120 MB above idle, for buffers of 16 MiB. With both off it was 32 MB.

Small blocks are another matter: events on their way come and go by the megabyte, and new pages cost several times what
copying into old ones does. So some freed memory of small blocks is kept.
"""

import ctypes

import pyarrow as pa

MAPPED_BYTES = 128 * 1024  # blocks from this size on are mapped, and unmapped when freed: glibc's own first value
KEPT_BYTES = 16 * 1024 * 1024  # of freed small blocks: more goes back
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def return_freed_memory() -> None:
    """Set up this process's allocators; where the C library is not glibc, Arrow's only."""
    pa.set_memory_pool(pa.system_memory_pool())
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
