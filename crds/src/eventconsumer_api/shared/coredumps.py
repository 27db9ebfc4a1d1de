"""No core dumps: an image of a process's memory on a node's disk contains its keys and tokens."""

import resource


def forbid_core_dumps() -> None:
    """Forbid core dumps of this process and of the processes that it starts.

    The limit is one byte. With it the kernel writes no file, which has at least one page, and starts no program for the
    dump (kernel.core_pattern with a pipe); with a limit of 0 it starts the program. Sources: do_coredump in Linux'
    fs/coredump.c, and https://man7.org/linux/man-pages/man5/core.5.html, "Piping core dumps to a program".
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 0 if hard == 0 else 1  # a limit of 0, such as of Spark's entry point, cannot be raised
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
