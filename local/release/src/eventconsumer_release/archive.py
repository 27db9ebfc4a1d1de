"""Reproducible archives of files: sorted, one time, one owner, two modes."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from local_cluster.images.context import context_files


def packed(files: Mapping[str, bytes], executable: frozenset[str], time: int) -> bytes:
    """A gzipped tar.

    Args:
        files: Content by name; sorted here.
        executable: Names of executable files.
        time: Modification time of each, seconds since 1970.
    """
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(files[name]), time
            entry.mode = 0o755 if name in executable else 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    # A gzip header may also contain a name and a time.
    return gzip.compress(plain.getvalue(), compresslevel=9, mtime=0)


def read(folder: Path, prefix: str) -> tuple[dict[str, bytes], frozenset[str]]:
    """All files of a folder, for `packed`.

    Args:
        folder: Their folder.
        prefix: Prefix of each name.
    """
    names = {path: f"{prefix}/{path.as_posix()}" for path in context_files(folder, ("*",))}
    runnable = frozenset(name for path, name in names.items() if (folder / path).stat().st_mode & 0o100)
    return {name: (folder / path).read_bytes() for path, name in names.items()}, runnable
