"""`python -m tests.golden` (`make golden`): writes the documents of the version that is not released yet."""

import shutil
import sys

from tests.golden.documents import changed
from tests.golden.versions import FILE, versions


def main() -> int:
    """Write the documents; the exit code."""
    newest = versions()[-1]
    if newest.commit:
        print(
            f"version {newest.name} is released, and its documents never change: add a line with the next version to "
            f"{FILE}",
            file=sys.stderr,
        )
        return 1
    shutil.rmtree(newest.folder, ignore_errors=True)
    newest.folder.mkdir()
    found = changed(newest)
    for name, text in found.items():
        (newest.folder / name).write_text(text, encoding="utf-8")
    print(f"{len(found)} documents of version {newest.name} differ from the version before: {newest.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
