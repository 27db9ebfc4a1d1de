"""`python -m eventconsumer_release.audit`: pinned packages with known vulnerabilities, for `make test-long`.

Advisories are records of the OSV format: those of Go, from the Go module proxy, and all in the folders that are given.
Ecosystems without advisories are reported as not audited.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.terminal import guarded
from eventconsumer_release import advisories, materials
from eventconsumer_release.advisories import ECOSYSTEMS, Finding, Record
from eventconsumer_release.errors import ReleaseError
from local_cluster.errors import ClusterError
from local_cluster.gotoolchain import find_go
from local_cluster.layout import REPOSITORY
from local_cluster.mirror import debian_mirror
from local_cluster.shell import run

ACCEPTED = "local/release/accepted-advisories.toml"
_GO_DATABASE = "golang.org/x/vulndb"  # its module contains its records: go.dev/doc/security/vuln/database
_console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Report:
    """The result of an audit.

    Attributes:
        lines: One for each ecosystem.
        mistakes: Findings in images that are not accepted, and accepted findings that do not exist any more.
        elsewhere: Findings in packages that are in no image.
    """

    lines: list[str]
    mistakes: list[str]
    elsewhere: list[Finding]


def report(root: Path, records: list[Record]) -> Report:
    """Compare all pinned packages with advisories.

    Args:
        root: The sources.
        records: The advisories.

    Raises:
        ReleaseError: An accepted advisory lacks a field.
    """
    users = list(materials.pinned(root))
    shipped = {package for user, package in users if user != materials.LOCAL}
    local = {package for _, package in users} - shipped
    known = advisories.coverage(records)
    audited = known.keys() & advisories.COMPARABLE
    in_images = list(advisories.findings(shipped, records))
    elsewhere = list(advisories.findings(local, records))
    accepted = advisories.accepted(tomllib.loads((root / ACCEPTED).read_text()).get("accepted", []))
    mistakes = [str(each) for each in in_images if not any(entry.concerns(each) for entry in accepted)]
    mistakes += [
        f"{ACCEPTED}: no package of an image has {entry.id} in {entry.package} any more; remove the entry"
        for entry in accepted
        if entry.ecosystem in audited and not any(entry.concerns(each) for each in in_images)
    ]
    lines = []
    for kind, ecosystem in ECOSYSTEMS.items():
        counts = [sum(each.kind == kind for each in packages) for packages in (shipped, local)]
        if ecosystem in audited:
            numbers = _packages(in_images, ecosystem), _packages(elsewhere, ecosystem)
            result = "{} in images and {} elsewhere have one of {}".format(*numbers, known[ecosystem])
        elif ecosystem in advisories.COMPARABLE:
            result = "NOT AUDITED: no advisories at hand; ADVISORIES names folders with records of the OSV format"
        else:
            result = "NOT AUDITED: the order of versions is not known here; scan the images' *.cdx.json"
        lines.append(f"{ecosystem}: {counts[0]} packages in images, {counts[1]} of {materials.LOCAL}; {result}")
    return Report(lines, mistakes, elsewhere)


def read(folder: Path) -> Iterator[Record]:
    """The records of a folder and its subfolders: its JSON files.

    Raises:
        ReleaseError: The folder has none, or a file is not a record.
    """
    paths = sorted(folder.rglob("*.json"))
    if not paths:
        raise ReleaseError(f"{folder} has no JSON files: ADVISORIES names folders with records of the OSV format.")
    for path in paths:
        record = json.loads(path.read_text())
        if not isinstance(record, dict) or "id" not in record:
            raise ReleaseError(f"{path} is not a record of the OSV format: remove it from the folder of advisories.")
        yield record


def go_records() -> Iterator[Record]:
    """The records of Go's vulnerability database in its newest version.

    Raises:
        ClusterError: Go or its module proxy cannot be reached.
    """
    command: list[str | Path] = [find_go(debian_mirror()), "mod", "download", "-json", f"{_GO_DATABASE}@latest"]
    yield from read(Path(json.loads(run(command, cwd=Path("/")))["Dir"]) / "data/osv")


def _packages(findings: Iterable[Finding], ecosystem: str) -> int:
    return len({(each.package, each.version) for each in findings if each.ecosystem == ecosystem})


def audit(
    folders: Annotated[
        list[Path] | None, typer.Option("--advisories", envvar="ADVISORIES", help="Folders with OSV records.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list findings in packages that are in no image.")
    ] = False,
    root: Annotated[Path, typer.Option(help="The repository.")] = REPOSITORY,
) -> None:
    """Report pinned packages that have known vulnerabilities; fail if one of them is in an image and not accepted."""
    try:
        records = [record for folder in folders or () for record in read(folder)]
        try:
            records += go_records()
        except ClusterError as error:
            _console.print(f"Go's vulnerability database cannot be read: {error}")
        found = report(root, records)
    except ReleaseError as error:
        _console.print(f"error: {error}")
        raise SystemExit(1) from None
    for line in ("Debian: NOT AUDITED: packages are not pinned; scan the images' *.cdx.json", *found.lines):
        _console.print(line)
    for finding in found.elsewhere if everything else ():
        _console.print(f"in no image: {finding}")
    for mistake in found.mistakes:
        _console.print(f"error: {mistake}")
    if found.mistakes:
        _console.print(f"Update the packages (make lock), or accept an advisory with its reason in {ACCEPTED}.")
        raise SystemExit(1)


@guarded()
def main() -> None:
    """Run the command."""
    typer.run(audit)


if __name__ == "__main__":
    main()
