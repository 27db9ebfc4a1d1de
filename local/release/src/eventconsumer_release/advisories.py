"""PURE: which packages have a known vulnerability, by records of the OSV format.

Source: ossf.github.io/osv-schema, "Evaluation".
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.inventory import Pinned

ECOSYSTEMS = {"pypi": "PyPI", "npm": "npm", "golang": "Go", "maven": "Maven"}
_SEMVER = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")

Record = Mapping[str, Any]
"""A record of the OSV format."""


@dataclass(frozen=True)
class Accepted:
    """A finding that is accepted.

    Attributes:
        id: Id of the advisory.
        ecosystem: One of `ECOSYSTEMS`.
        package: Name of the package.
        reason: Why it does not matter here.
        date: Date of the decision, YYYY-MM-DD.
    """

    id: str
    ecosystem: str
    package: str
    reason: str
    date: str

    def concerns(self, finding: "Finding") -> bool:
        """Whether it accepts a finding."""
        return (self.id, self.ecosystem, self.package) == (finding.id, finding.ecosystem, finding.package)


@dataclass(frozen=True)
class Finding:
    """A package in a version that an advisory names."""

    id: str
    ecosystem: str
    package: str
    version: str
    summary: str

    def __str__(self) -> str:
        """One line for a report."""
        return f"{self.ecosystem} {self.package} {self.version}: {self.id} {self.summary}".rstrip()


def accepted(entries: Iterable[Mapping[str, Any]]) -> list[Accepted]:
    """The entries of the file of accepted advisories.

    Raises:
        ReleaseError: An entry lacks a field, or has an empty one.
    """
    found = []
    for entry in entries:
        fields = {name: str(entry.get(name, "")).strip() for name in Accepted.__match_args__}
        if missing := [name for name, value in fields.items() if not value]:
            raise ReleaseError(f"The accepted advisory {fields['id'] or entry} has no {', '.join(missing)}: add it.")
        found.append(Accepted(**fields))
    return found


def findings(packages: Iterable[Pinned], records: Iterable[Record]) -> Iterator[Finding]:
    """The packages that a record names in their version; packages of an ecosystem without an order are left out."""
    by_name: dict[tuple[str, str], list[Pinned]] = {}
    for package in packages:
        if package.kind in _ORDERS:
            by_name.setdefault((ECOSYSTEMS[package.kind], _name(package)), []).append(package)
    for record in records:
        for entry in record.get("affected", []) if not record.get("withdrawn") else []:
            named = entry.get("package", {})
            for package in by_name.get((named.get("ecosystem"), named.get("name")), ()):
                if _is_affected(package, entry):
                    ecosystem = ECOSYSTEMS[package.kind]
                    yield Finding(record["id"], ecosystem, _name(package), package.version, record.get("summary", ""))


@dataclass(frozen=True)
class Coverage:
    """Records about one ecosystem: their number, and the newest day on which one changed; empty if none has a time."""

    number: int
    newest: str

    def __str__(self) -> str:
        """A part of a sentence."""
        return f"{self.number} advisories" + (f" (newest: {self.newest})" if self.newest else "")


def coverage(records: Iterable[Record]) -> dict[str, Coverage]:
    """The ecosystems that records are about; Go's own files have the year 1 as their time."""
    days: dict[str, list[str]] = {}
    for record in records:
        day = str(record.get("modified", ""))[:10]
        for ecosystem in {entry["package"]["ecosystem"] for entry in record.get("affected", []) if "package" in entry}:
            days.setdefault(ecosystem, []).append("" if day.startswith("0001") else day)
    return {ecosystem: Coverage(len(each), max(each)) for ecosystem, each in days.items()}


def _name(package: Pinned) -> str:
    name = f"{package.namespace}/{package.name}" if package.namespace else package.name
    return canonicalize_name(name) if package.kind == "pypi" else name


def _is_affected(package: Pinned, entry: Mapping[str, Any]) -> bool:
    if package.version in entry.get("versions", []):
        return True
    order = _ORDERS[package.kind]
    version = order(package.version)
    for span in entry.get("ranges", []):
        if span["type"] == "GIT":
            continue
        inside = False
        events = [(kind, text) for event in span["events"] for kind, text in event.items()]
        for kind, text in sorted(events, key=lambda event: () if event[1] == "0" else order(event[1])):
            if kind == "introduced":
                inside = inside or text == "0" or version >= order(text)
            elif kind == "fixed":
                inside = inside and version < order(text)
            elif kind == "last_affected":
                inside = inside and version <= order(text)
        if inside:
            return True
    return False


def _python(text: str) -> tuple[Any, ...]:
    try:
        return (1, Version(text))
    except InvalidVersion:
        return (0, text)  # a version of before the standard: older than every other one


def _semantic(text: str) -> tuple[Any, ...]:
    """A key in the order of semver.org, section 11."""
    found = _SEMVER.fullmatch(text)
    if not found:
        raise ReleaseError(f"{text} is not a semantic version, so it cannot be compared with an advisory.")
    core = tuple(int(each) for each in found.groups()[:3])
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in (found[4] or "").split(".") if part]
    return (*core, not parts, parts)


_ORDERS: dict[str, Callable[[str], tuple[Any, ...]]] = {"pypi": _python, "npm": _semantic, "golang": _semantic}
COMPARABLE = frozenset(ECOSYSTEMS[kind] for kind in _ORDERS)
"""Ecosystems whose versions can be compared here; Maven's order is not implemented."""
