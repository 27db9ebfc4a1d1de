"""The folder /app of an image with a handler, on this machine: our program, and modules of a user."""

from pathlib import Path

import eventconsumer_host

_PACKAGES = ("eventconsumer_host", "eventconsumer_tools", "eventconsumer_audit")


def app_folder(folder: Path, *modules: Path) -> Path:
    """Make `folder` such a folder; a process with it as PYTHONPATH runs our program from there.

    Args:
        folder: It does not exist yet.
        modules: Files to copy there, as a Dockerfile does; of a folder, its modules.
    """
    folder.mkdir()
    for package in _PACKAGES:
        (folder / package).symlink_to(Path(eventconsumer_host.__path__[0]).with_name(package))
    for given in modules:
        for module in [given] if given.is_file() else given.glob("*.py"):
            (folder / module.name).write_bytes(module.read_bytes())
    return folder
