"""The base image of a release, made by debootstrap from this machine's Debian mirror."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventconsumer_release import contents
from eventconsumer_release.oci import Image
from local_cluster.images import base
from local_cluster.images.buildah import Buildah
from local_cluster.mirror import debian_mirror

PENDING = """\
FROM {base}
RUN apt-get update && apt-get --simulate dist-upgrade >/tmp/pending && ! grep ^Inst /tmp/pending
"""
# `base.make` where the machine has no keys of Debian, in a mount namespace of its own.
WITHOUT_KEYS = """\
mount --types tmpfs none /usr/share/keyrings
exec "$1" -c '
import sys
from pathlib import Path
from local_cluster.images import base
from local_cluster.images.buildah import Buildah
folder = Path(sys.argv[1])
base.make(Buildah(folder / "storage", "vfs"), sys.argv[2], folder, folder / "log")
' "$2" "$3"
"""


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Buildah]:
    """buildah with a storage of its own."""
    found = Buildah(tmp_path / "storage", "vfs")
    yield found
    found.recover()


@pytest.mark.long
def test_the_base_image_has_every_update_of_the_mirror_and_its_packages_are_listed(
    buildah: Buildah, tmp_path: Path
) -> None:
    base.make(buildah, debian_mirror(), tmp_path / "scratch", tmp_path / "log")
    (tmp_path / "context").mkdir()
    dockerfile = tmp_path / "context/Dockerfile"
    dockerfile.write_text(PENDING.format(base=base.reference()))
    buildah.build(dockerfile, tmp_path / "context", "localhost/pending:1", {}, tmp_path / "log")
    buildah.save(base.reference(), "registry.example.com/base:1", tmp_path / "base.tar")
    found = list(contents.packages(Image(tmp_path / "base.tar").files(contents.wanted), "1"))
    names = {each.name: each for each in found if each.kind == "deb"}
    assert {"ca-certificates", "libc6", "libssl3", "python3.11-minimal", "tini"} <= names.keys()
    assert {("distro", "debian-12"), ("upstream", "openssl")} < set(names["libssl3"].qualifiers)
    assert names["libssl3"].supplier
    assert len(names) == len([each for each in found if each.kind == "deb"]) > 90


def test_a_machine_without_debian_s_keys_installs_nothing(tmp_path: Path) -> None:
    command = ["unshare", "--mount", "sh", "-ec", WITHOUT_KEYS, "sh", sys.executable, str(tmp_path), debian_mirror()]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Cannot check Release signature" in (tmp_path / "log").read_text()
    assert not list(tmp_path.glob(".base-*"))
