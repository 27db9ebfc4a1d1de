"""Bills of materials, as CycloneDX documents: of all pinned packages, and of the content of each image."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from eventconsumer_release import contents, inventory
from eventconsumer_release.contents import Installed
from eventconsumer_release.inventory import Pinned
from eventconsumer_release.oci import Image
from eventconsumer_release.source import Commit
from eventconsumer_release.versions import IMAGES

USED_BY = "eventconsumer:usedBy"
FOUND_IN = "eventconsumer:foundIn"
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
    bom = _empty(f"pkg:generic/eventconsumer@{version}?commit={commit.id}", commit)
    product = Component(
        name="eventconsumer",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"eventconsumer@{version}",
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
    )
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


def of_image(image: Image, reference: str, commit: Commit, locked: Iterable[Pinned]) -> str:
    """The bill of materials of an image as JSON, CycloneDX 1.6: the packages in its root file system.

    Args:
        image: The image.
        reference: Its name; the tag is the version of the release.
        commit: Names the time of the document.
        locked: Packages of the lock file, for the digests of Python's wheels.
    """
    files = image.files(contents.wanted)
    bom = _empty(f"pkg:oci/{reference}@{image.digest}", commit)
    digest = HashType(alg=HashAlgorithm.SHA_256, content=image.digest.removeprefix("sha256:"))
    product = Component(
        name=reference, version=image.digest, type=ComponentType.CONTAINER, bom_ref=reference, hashes=[digest]
    )
    bom.metadata.component = product
    system = contents.operating_system(files)
    if system:
        name, number = system["ID"], system.get("VERSION_ID", "")
        bom.components.add(
            Component(name=name, version=number, type=ComponentType.OPERATING_SYSTEM, bom_ref=f"os:{name}-{number}")
        )
    digests = {(each.kind, each.name.lower(), each.version): each.digests for each in locked}
    for found in contents.packages(files, reference.rpartition(":")[2]):
        accepted = digests.get((found.kind, found.name, found.version), ())
        bom.components.add(_installed(found, (("sha256", found.sha256),) if found.sha256 else accepted))
    bom.register_dependency(product, list(bom.components))
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _empty(identity: str, commit: Commit) -> Bom:
    """A document whose serial number and time are those of every build of the commit."""
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, identity))
    bom.metadata.timestamp = datetime.fromtimestamp(commit.time, UTC)
    return bom


def _installed(found: Installed, digests: tuple[tuple[str, str], ...]) -> Component:
    url = PackageURL(found.kind, found.namespace or None, found.name, found.version or None, dict(found.qualifiers))
    return Component(
        name=found.name,
        group=found.namespace or None,
        version=found.version or None,
        type=ComponentType.LIBRARY,
        bom_ref=f"{url.to_string()}#{found.path}",
        purl=url,
        supplier=OrganizationalEntity(name=found.supplier) if found.supplier else None,
        hashes=[HashType(alg=_ALGORITHMS[algorithm], content=digest) for algorithm, digest in digests],
        properties=[Property(name=FOUND_IN, value=found.path)],
    )


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
