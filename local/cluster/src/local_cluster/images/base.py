"""The base image without a reachable registry: Debian 12 with Python 3.11, built by debootstrap."""

import os
import tempfile
from pathlib import Path

from local_cluster.images.buildah import Buildah
from local_cluster.images.context import content_hash
from local_cluster.shell import run

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv", "tini")
_SOURCES = """\
deb {mirror} {suite} main
deb {mirror} {suite}-updates main
deb {security} {suite}-security main
"""
# Not needed in a container, and two fifths of the size.
_DOCS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_DROPPED = (
    *_DOCS,
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)
# For packages of later layers: no fsync of each file (the layer is thrown away after a crash), and no documentation.
_DPKG = "\n".join(("force-unsafe-io", *(f"path-exclude /{path}/*" for path in _DOCS), ""))


# debootstrap installs from one suite only, without its updates. Signatures are required also on a machine without
# Debian's keys, where debootstrap would only warn (debootstrap(8), --force-check-gpg).
_VERIFIED = "--force-check-gpg"
_UPDATES = (("apt-get", "update"), ("apt-get", "dist-upgrade", "--yes"))


def reference() -> str:
    """Name of the base image; its tag is a hash of this recipe."""
    steps = [_VERIFIED, *(" ".join(command) for command in _UPDATES)]
    recipe = content_hash(Path("/"), (), SUITE, *PACKAGES, _SOURCES, _DPKG, *_DROPPED, *steps)
    return f"localhost/eventconsumer/base:{recipe}"


def make(buildah: Buildah, mirror: str, scratch: Path, log: Path) -> None:
    """Make the base image, with the security updates of the mirror; 20 to 60 s.

    Args:
        buildah: Receives the image.
        mirror: The Debian mirror.
        scratch: Folder for the root file system during the build, 300 MB.
        log: Receives the output of debootstrap.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".base-", dir=scratch) as folder:
        root = Path(folder) / "root"
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        included = f"--include={','.join(PACKAGES)}"
        run(["debootstrap", "--variant=minbase", _VERIFIED, included, SUITE, root, mirror], log=log, env=quiet)
        sources = _SOURCES.format(mirror=mirror, suite=SUITE, security=security_mirror(mirror))
        (root / "etc/apt/sources.list").write_text(sources)
        (root / "etc/dpkg/dpkg.cfg.d/image").write_text(_DPKG)
        for command in _UPDATES:
            run(["chroot", root, *command], log=log, env=quiet)
        archive = Path(folder) / "root.tar"
        unset = ["--exclude=./etc/resolv.conf", "--exclude=./etc/hostname"]  # debootstrap copies the machine's own
        excluded = [f"--exclude=./{path}/*" for path in _DROPPED]
        run(
            ["tar", "--create", "--file", archive, "--directory", root, *excluded, "--exclude=./dev/*", *unset, "."],
            log=log,
        )
        buildah.import_root(archive, reference(), log)


def security_mirror(mirror: str) -> str:
    """A mirror's URL of Debian's security updates, which is beside the archive."""
    return os.environ.get("DEBIAN_SECURITY_MIRROR") or mirror.removesuffix("/debian") + "/debian-security"
