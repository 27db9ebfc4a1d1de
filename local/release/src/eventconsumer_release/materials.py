"""The bill of materials: a CycloneDX document of all pinned packages."""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from eventconsumer_release import inventory
from eventconsumer_release.inventory import Pinned
from eventconsumer_release.source import Commit
from eventconsumer_release.versions import IMAGES

USED_BY = "eventconsumer:usedBy"
LOCAL = "local emulators, tests and tools"
_ALGORITHMS = {
    "sha1": HashAlgorithm.SHA_1,
    "sha256": HashAlgorithm.SHA_256,
    "sha384": HashAlgorithm.SHA_384,
    "sha512": HashAlgorithm.SHA_512,
}


def pinned(root: Path) -> Iterator[tuple[str, Pinned]]:
    """All packages of lock files, each with its user: an image, or `LOCAL`, which is not part of a release.

    Args:
        root: The sources.

    Raises:
        ReleaseError: A package is pinned without a digest.
    """
    for image in IMAGES:
        for found in inventory.pip((root / f"requirements/{image}.txt").read_text()):
            yield f"image {image}", found
    jars = root / "spark/jars"
    for found in inventory.jars((jars / "pom.xml").read_text(), (jars / "SHA256SUMS").read_text()):
        yield "image spark", found
    for path in sorted((root / "requirements").glob("*.txt")):
        if path.stem not in IMAGES:
            for found in inventory.pip(path.read_text()):
                yield LOCAL, found
    for found in inventory.npm((root / "local/azurite/package-lock.json").read_text()):
        yield LOCAL, found
    for sums in sorted((root / "local/cluster/tools").glob("*/go.sum")):
        for found in inventory.go(sums.read_text()):
            yield LOCAL, found


def document(root: Path, version: str, commit: Commit, wheels: Mapping[str, str]) -> str:
    """The bill of materials as JSON, CycloneDX 1.6.

    Args:
        root: The sources.
        version: Of the release.
        commit: Names the document and its time.
        wheels: SHA-256 of each of the project's own wheels, by the distribution's name.

    Returns:
        Each component with its digests. If an index has several files of a version, there is one digest per file.
    """
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"pkg:generic/eventconsumer@{version}?commit={commit.id}"))
    bom.metadata.timestamp = datetime.fromtimestamp(commit.time, UTC)
    product = Component(
        name="eventconsumer", version=version, type=ComponentType.APPLICATION, bom_ref=f"eventconsumer@{version}",
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
    )  # fmt: skip
    bom.metadata.component = product
    for name, digest in wheels.items():
        own = Pinned("pypi", "", name, version, (("sha256", digest),))
        bom.components.add(_component(own, {"release"}, DisjunctiveLicense(id="Apache-2.0")))
    users: dict[Pinned, set[str]] = defaultdict(set)
    for user, found in pinned(root):
        users[found].add(user)
    for found, names in users.items():
        bom.components.add(_component(found, names))
    bom.register_dependency(product, [each for each in bom.components if each.scope is ComponentScope.REQUIRED])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(found: Pinned, users: set[str], *licenses: DisjunctiveLicense) -> Component:
    url = PackageURL(found.kind, found.namespace or None, found.name, found.version)
    return Component(
        name=found.name,
        group=found.namespace or None,
        version=found.version,
        type=ComponentType.LIBRARY,
        bom_ref=url.to_string(),
        purl=url,
        licenses=licenses,
        scope=ComponentScope.EXCLUDED if users == {LOCAL} else ComponentScope.REQUIRED,
        hashes=[HashType(alg=_ALGORITHMS[algorithm], content=digest) for algorithm, digest in found.digests],
        properties=[Property(name=USED_BY, value=user) for user in users],
    )
