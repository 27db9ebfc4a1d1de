"""buildah with a separate storage.

Builds are reproducible: the same files on the same base image produce the same image, and the same image the same
archive. All entries of a built layer, and all entries of an archive, have one fixed time.
"""

import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from local_cluster import sweep
from local_cluster.errors import ClusterError
from local_cluster.images.context import EPOCH
from local_cluster.shell import run

_CA_IN_BUILD = "/run/build-ca.crt"  # not below /etc/ssl/certs, where ca-certificates-java writes while it is installed
_CA_VARIABLES = frozenset({"PIP_CERT", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"})
_PASSED_ON = frozenset(
    {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NPM_CONFIG_REGISTRY", "MAVEN_MIRROR", "DEBIAN_MIRROR"}
    | {f"{scheme}_proxy" for scheme in ("http", "https", "no")}
    | {f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "NO")}
)


def build_arguments(declared: frozenset[str], environment: Mapping[str, str], pip_index: str | None) -> dict[str, str]:
    """The build arguments of this machine for a Dockerfile.

    Args:
        declared: The arguments of the Dockerfile; buildah would warn about other ones.
        environment: Variables of the machine.
        pip_index: The package index that pip is configured with, if any.

    Returns:
        Value by name. They reach only stages that declare them, and none of them changes what is installed.
    """
    values = {name: environment[name] for name in _PASSED_ON if environment.get(name)}
    if pip_index:
        values.setdefault("PIP_INDEX_URL", pip_index)
    values |= dict.fromkeys(_CA_VARIABLES, _CA_IN_BUILD)
    return {name: values[name] for name in sorted(values) if name in declared}


def ca_bundle(environment: Mapping[str, str]) -> Path:
    """The certificates that this machine trusts.

    Raises:
        ClusterError: The machine has no certificates.
    """
    candidates = [
        environment.get("SSL_CERT_FILE"),
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
    ]
    for candidate in candidates:
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    raise ClusterError("No CA bundle was found; install ca-certificates or set SSL_CERT_FILE.")


class Buildah:
    """Images of one storage directory."""

    def __init__(self, storage: Path, driver: str) -> None:
        """Use this storage.

        Args:
            storage: Created when needed.
            driver: `overlay`, or `vfs` where overlay mounts do not work.
        """
        self._storage = storage
        self._base = ["buildah", "--root", str(storage), "--runroot", f"{storage}/run", "--storage-driver", driver]

    def recover(self) -> None:
        """Remove the remains of a killed build; no other process may use the storage during this call."""
        sweep.unmount(self._storage)
        shutil.rmtree(self._storage / "run", ignore_errors=True)  # it would report that the mounts exist
        if self._storage.exists():
            run([*self._base, "rm", "--all"])

    def references(self) -> set[str]:
        """All named images."""
        listed = run([*self._base, "images", "--format", "{{.Name}}:{{.Tag}}"])
        return {line for line in listed.split() if "<none>" not in line}

    def import_root(self, archive: Path, reference: str, log: Path) -> None:
        """Make an image of a root file system.

        Args:
            archive: Tar of the file system.
            reference: Name of the image.
            log: Receives buildah's output.
        """
        container = run([*self._base, "from", "scratch"]).strip()
        try:
            run([*self._base, "add", "--quiet", container, archive, "/"], log=log)
            run(
                [
                    *self._base,
                    "config",
                    "--env",
                    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    container,
                ]
            )
            run([*self._base, "commit", "--quiet", container, reference], log=log)
        finally:
            run([*self._base, "rm", container], log=log)

    def build(self, dockerfile: Path, context: Path, reference: str, arguments: Mapping[str, str], log: Path) -> None:
        """Build an image; layers whose input did not change are reused.

        Programs that compare times of files see that all are the same: compiled Python has to be valid by its source's
        hash, or whatever it is.
        """
        command = [*self._base, "bud", "--layers", "--network", "host", "--isolation", "chroot", "--pull-never"]
        command += ["--timestamp", str(EPOCH), "--volume", f"{ca_bundle(os.environ)}:{_CA_IN_BUILD}:ro"]
        for name, value in arguments.items():
            command += ["--build-arg", f"{name}={value}"]
        run([*command, "--file", str(dockerfile), "--tag", reference, str(context)], log=log)

    def export(self, reference: str) -> list[str | Path]:
        """The command that writes an image to its standard output, as a docker archive."""
        return [*self._base, "push", "--quiet", reference, f"docker-archive:/dev/stdout:{reference}"]

    def save(self, reference: str, name: str, target: Path) -> None:
        """Write an image to an OCI archive.

        Args:
            reference: The image.
            name: Its name in the archive.
            target: The file to write.
        """
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
            run([*self._base, "push", "--quiet", reference, f"oci:{folder}:{name}"])
            _pack(Path(folder), target)

    def push(self, reference: str) -> None:
        """Push an image to the registry in its name."""
        run([*self._base, "push", "--quiet", reference, f"docker://{reference}"])

    def forget(self, references: set[str]) -> None:
        """Remove names, and the layers that only they used."""
        if references:
            run([*self._base, "rmi", *sorted(references)])


def reproducible(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry of an archive without time and owner, and with one of two modes."""
    entry.mtime, entry.mode = EPOCH, 0o755 if entry.isdir() else 0o644
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _pack(folder: Path, target: Path) -> None:
    """A tar of a folder's files."""
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=reproducible)
