"""Find a Go that can build the tools, or get one through apt.

Go 1.21 and later is sufficient: it downloads the toolchain of a go.mod through the Go module proxy (GOTOOLCHAIN=auto).
Debian 12's Go (1.19) cannot do this; its backports contain a newer Go, which is installed beside an existing one,
without changing apt's configuration.
"""

import re
import shutil
import tempfile
from pathlib import Path

from local_cluster.errors import CommandFailed, HostUnfit
from local_cluster.packages import install_named
from local_cluster.shell import run

FIRST_SWITCHING = (1, 21)
_BACKPORTS_GO = Path("/usr/lib/go-1.23/bin/go")
_BACKPORTS = """\
Types: deb
URIs: {mirror}
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def parse_version(text: str) -> tuple[int, int]:
    """The version in the output of `go version`.

    Args:
        text: Such as `go version go1.25.3 linux/amd64`.

    Returns:
        Major and minor; (0, 0) if the text has no version.
    """
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def find_go(mirror: str) -> Path:
    """A `go` command of at least `FIRST_SWITCHING`.

    Args:
        mirror: Debian mirror to install from if the machine has none.

    Raises:
        HostUnfit: No such Go is installed, and apt could not install one.
    """
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go", _BACKPORTS_GO):
        if candidate and Path(candidate).exists() and _version(Path(candidate)) >= FIRST_SWITCHING:
            return Path(candidate)
    try:
        _install_from_backports(mirror)
    except CommandFailed as error:
        raise HostUnfit(
            f"Building Kubernetes needs Go 1.21 or later, none is installed, and apt could not bring it:\n{error}\n"
            "Install Go (https://go.dev/doc/install), see that `go version` works, and retry."
        ) from error
    return _BACKPORTS_GO


def _version(go: Path) -> tuple[int, int]:
    try:
        return parse_version(run([go, "version"], env={"GOTOOLCHAIN": "local"}, cwd=Path("/")))
    except CommandFailed:
        return (0, 0)


def _install_from_backports(mirror: str) -> None:
    """Install from a separate package list: the machine's sources do not change."""
    with tempfile.TemporaryDirectory(prefix="eventconsumer-apt-") as scratch:
        base = Path(scratch)
        for folder in ("lists/partial", "parts"):
            (base / folder).mkdir(parents=True)
        base.chmod(0o755)  # apt fetches as its own user
        (base / "parts" / "backports.sources").write_text(_BACKPORTS.format(mirror=mirror))
        machine_sources = Path("/etc/apt/sources.list.d")
        for source in machine_sources.glob("debian*.sources"):
            (base / "parts" / source.name).symlink_to(source)
        options = ("-o", f"Dir::Etc::SourceParts={base}/parts", "-o", f"Dir::State::Lists={base}/lists")
        install_named(["golang-1.23-go"], options)
