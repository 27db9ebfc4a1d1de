"""PURE: the packages in the root file system of an image: Debian's, Python's, Java's, and the compiled decoder."""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

DPKG_STATUS = "var/lib/dpkg/status"
OS_RELEASE = "usr/lib/os-release"
DECODER = "libeventconsumer_decoder.so"


@dataclass(frozen=True)
class Installed:
    """A package of an image.

    Attributes:
        kind: Type of the package URL: deb, pypi, maven, cargo; generic for a jar without coordinates.
        namespace: Such as a Maven group; empty if it has none.
        name: Its name.
        version: Its version; empty for a jar without coordinates.
        path: The file that shows it.
        qualifiers: Of the package URL.
        supplier: Who maintains it; empty if the file does not say.
        sha256: Digest of the package's only file; empty if it has several.
    """

    kind: str
    namespace: str
    name: str
    version: str
    path: str
    qualifiers: tuple[tuple[str, str], ...] = ()
    supplier: str = ""
    sha256: str = ""


def wanted(path: str) -> bool:
    """Whether `packages` reads a file."""
    return (
        path in {DPKG_STATUS, OS_RELEASE}
        or path.endswith((".jar", f"/{DECODER}"))
        or (path.endswith("/METADATA") and PurePosixPath(path).parent.suffix == ".dist-info")
    )


def packages(files: Mapping[str, bytes], version: str) -> Iterator[Installed]:
    """All packages.

    Args:
        files: Content by path of at least the `wanted` files.
        version: Version of the release, and so of the decoder.
    """
    release = operating_system(files)
    for path, content in files.items():
        name = PurePosixPath(path).name
        if path == DPKG_STATUS:
            yield from _debian(content.decode(), release)
        elif name == "METADATA":
            fields = HeaderParser().parsestr(content.decode(errors="replace"), headersonly=True)
            yield Installed("pypi", "", canonicalize_name(fields["Name"]), fields["Version"], path)
        elif path.endswith(".jar"):
            group, artifact, number = _coordinates(name.removesuffix(".jar"), content)
            kind = "maven" if group else "generic"
            yield Installed(kind, group, artifact, number, path, sha256=sha256(content).hexdigest())
        elif name == DECODER:
            digest = sha256(content).hexdigest()
            yield Installed("cargo", "", "eventconsumer-decoder", version, path, sha256=digest)


def operating_system(files: Mapping[str, bytes]) -> dict[str, str]:
    """The fields of os-release, such as ID and VERSION_ID; empty if the image has none."""
    text = files.get(OS_RELEASE, b"").decode()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in text.splitlines()) if value}


def _debian(text: str, release: Mapping[str, str]) -> Iterator[Installed]:
    """Installed packages of dpkg's status file; the source package is what Debian's advisories name."""
    for entry in text.split("\n\n"):
        fields = HeaderParser().parsestr(entry, headersonly=True)
        if (fields["Status"] or "").split()[-1:] != ["installed"]:
            continue
        source = (fields["Source"] or fields["Package"]).partition(" ")[0]
        qualifiers = {"arch": fields["Architecture"]}
        if "VERSION_ID" in release:
            qualifiers["distro"] = f"{release['ID']}-{release['VERSION_ID']}"
        if source != fields["Package"]:
            qualifiers["upstream"] = source
        yield Installed(
            "deb",
            release.get("ID", "debian"),
            fields["Package"],
            fields["Version"],
            DPKG_STATUS,
            tuple(sorted(qualifiers.items())),
            fields["Maintainer"] or "",
        )


def _coordinates(name: str, content: bytes) -> tuple[str, str, str]:
    """Group, artifact and version of a jar, from the pom.properties that fits its name; a jar may contain others'.

    Without one: no group, and what the name says.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as jar:
        for member in jar.namelist():
            if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", member):
                lines = jar.read(member).decode(errors="replace").splitlines()
                fields = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
                artifact, version = fields.get("artifactId", ""), fields.get("version", "")
                if artifact and f"{name}-".startswith(f"{artifact}-{version}-"):  # a classifier may follow
                    return fields.get("groupId", ""), artifact, version
    stem, *number = re.split(r"-(?=\d)", name, maxsplit=1)
    return "", stem, "".join(number)
