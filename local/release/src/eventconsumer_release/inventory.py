"""PURE: pinned packages of lock files, with digests: requirements of pip, npm's lock, go.sum, jars of a pom.xml."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from eventconsumer_release.errors import ReleaseError

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
_PIP_HASH = re.compile(r"--hash=(?P<alg>\w+):(?P<digest>[0-9a-f]+)")
_POM = "{http://maven.apache.org/POM/4.0.0}"


@dataclass(frozen=True)
class Pinned:
    """One package in one version.

    Attributes:
        kind: Type of the package URL: pypi, npm, golang, maven.
        namespace: Such as a Maven group; empty if it has none.
        name: Its name.
        version: Its exact version.
        digests: Algorithm and hex digits of each file that is accepted; at least one.
    """

    kind: str
    namespace: str
    name: str
    version: str
    digests: tuple[tuple[str, str], ...]


def pip(text: str) -> Iterator[Pinned]:
    """Packages of a requirements file with hashes.

    Raises:
        ReleaseError: One has no hash.
    """
    for entry in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
        if found := _PIN.match(entry):
            digests = tuple((each["alg"], each["digest"]) for each in _PIP_HASH.finditer(entry))
            yield _checked(Pinned("pypi", "", found["name"], found["version"], digests), "make lock")


def npm(text: str) -> Iterator[Pinned]:
    """Packages of a package-lock.json.

    Raises:
        ReleaseError: One has no hash.
    """
    for path, entry in json.loads(text)["packages"].items():
        if not path or entry.get("link"):
            continue  # the project itself
        scope, _, name = entry.get("name", path.rpartition("node_modules/")[2]).rpartition("/")
        digests = tuple(_subresource(each) for each in entry.get("integrity", "").split())
        yield _checked(Pinned("npm", scope, name, entry["version"], digests), "make lock")


def go(text: str) -> Iterator[Pinned]:
    """Modules of a go.sum whose sources are used, without lines of a go.mod alone."""
    for line in text.splitlines():
        module, version, digest = line.split()
        if not version.endswith("/go.mod"):
            namespace, _, name = module.rpartition("/")
            # SHA-256 of the list of the files' digests.
            yield Pinned("golang", namespace, name, version, (("sha256", _hex(digest.removeprefix("h1:"))),))


def jars(pom: str, digests: str) -> Iterator[Pinned]:
    """The jars of a pom.xml, with the digests of a SHA256SUMS.

    Raises:
        ReleaseError: The two do not name the same jars.
    """
    known = {name: digest for digest, name in (line.split() for line in digests.splitlines())}
    for entry in ElementTree.fromstring(pom).iter(f"{_POM}dependency"):
        group, artifact, version = (entry.findtext(_POM + tag, "") for tag in ("groupId", "artifactId", "version"))
        digest = known.pop(f"{artifact}-{version}.jar", None)
        found = (("sha256", digest),) if digest else ()
        yield _checked(Pinned("maven", group, artifact, version, found), "add its line to spark/jars/SHA256SUMS")
    if known:
        raise ReleaseError(
            f"spark/jars/SHA256SUMS names {', '.join(sorted(known))}, which pom.xml does not: remove it."
        )


def _checked(found: Pinned, remedy: str) -> Pinned:
    if not found.digests:
        raise ReleaseError(f"{found.name} {found.version} is pinned without a digest: {remedy}.")
    return found


def _subresource(text: str) -> tuple[str, str]:
    algorithm, _, digest = text.partition("-")
    return algorithm, _hex(digest)


def _hex(digest: str) -> str:
    return base64.b64decode(digest).hex()
