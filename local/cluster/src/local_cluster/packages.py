"""The Debian packages that the cluster requires, installed only if they are missing.

No package starts a service: `policy-rc.d` forbids it during the installation. Otherwise, containerd's package would
start a second daemon on a machine with an init system.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from local_cluster.errors import CommandFailed, HostUnfit
from local_cluster.shell import run, succeeds

# package: (a file that shows that it is installed, from any package)
RUNTIME = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "iptables": "iptables-save",
    "iproute2": "ip",
    "conntrack": "conntrack",
    "mount": "mount",
}
BUILD = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
}
_POLICY = Path("/usr/sbin/policy-rc.d")
_APT = threading.Lock()  # for the threads of this process; among processes apt waits for its own lock


def missing(wanted: dict[str, str], present: Callable[[str], bool]) -> list[str]:
    """The missing packages.

    Args:
        wanted: Package name to witness: a command, or an absolute path.
        present: Whether a file exists.
    """
    return [package for package, witness in wanted.items() if not present(witness)]


def install(wanted: dict[str, str]) -> list[str]:
    """Install missing packages.

    Returns:
        The packages that were installed.

    Raises:
        HostUnfit: A package is missing, and this machine has no apt.
        CommandFailed: apt failed.
    """
    packages = missing(wanted, _is_present)
    if packages:
        install_named(packages)
    return packages


def install_named(packages: list[str], options: tuple[str, ...] = ()) -> None:
    """Install packages by name through apt; the package list is fetched if the present one does not know them."""
    if shutil.which("apt-get") is None:
        raise HostUnfit(
            f"These programs are missing: {', '.join(packages)}, and there is no apt-get to install them with. "
            "Install them with the package manager of this machine and retry."
        )
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    options = ("-o", "DPkg::Lock::Timeout=300", *options)
    install_command = ["apt-get", *options, "install", "-y", "-q", "--no-install-recommends", *packages]
    with _APT, _no_service_starts():
        try:
            run(install_command, env=environment)
        except CommandFailed:  # an absent or outdated package list: fetch it and try once more
            run(["apt-get", *options, "update", "-q"], env=environment)
            run(install_command, env=environment)


def _is_present(witness: str) -> bool:
    return Path(witness).exists() if witness.startswith("/") else shutil.which(witness) is not None


@contextmanager
def _no_service_starts() -> Iterator[None]:
    if _POLICY.exists() or not succeeds(["test", "-w", _POLICY.parent]):
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)
