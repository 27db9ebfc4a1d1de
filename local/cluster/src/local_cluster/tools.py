"""Build Kubernetes, etcd, CoreDNS and Helm from their Go modules, once per user and version.

Each folder under `tools/` is a Go module that pins one product. Its binaries are kept in the cache under a name that
contains a hash of the module's files and of the build flags: another version is another folder, and the second run
builds nothing. A folder is created by a rename after the build, so an existing folder is complete.
"""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from local_cluster.errors import ClusterError
from local_cluster.lock import exclusive
from local_cluster.shell import run


@dataclass(frozen=True)
class ToolModule:
    """One Go module under `tools/`.

    Attributes:
        name: Folder name.
        packages: Arguments of `go build`: `tool` means every tool directive of the go.mod.
        binaries: The commands that the build must produce.
        versioned: Module path whose version is linked into the binaries, if clients need it.
        rename: Commands whose names in Go and in the product differ.
        one_program: The build produces one program with the module's name; the commands are links to it.
    """

    name: str
    packages: str
    binaries: tuple[str, ...]
    versioned: str | None = None
    rename: tuple[tuple[str, str], ...] = ()
    one_program: bool = False


MODULES = (
    ToolModule(
        "kubernetes",
        ".",
        ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"),
        versioned="k8s.io/kubernetes",
        one_program=True,
    ),
    ToolModule("etcd", "tool", ("etcd",), rename=(("server", "etcd"),)),
    ToolModule("coredns", ".", ("coredns",)),
    ToolModule("helm", "tool", ("helm",)),
    ToolModule("pause", ".", ("pause",)),
)
# Argo CD's engine: no part of the cluster, for the tests that apply the product from a Git repository.
GITOPS = ToolModule("gitops", "tool", ("agent", "gitops"))
# The kubeflow Spark operator: likewise, for the tests of that launcher.
KUBEFLOW = ToolModule("kubeflow", "tool", ("spark-operator",), rename=(("operator", "spark-operator"),))


def module_version(go_mod: str, path: str) -> str:
    """The version that a go.mod requires of a module.

    Args:
        go_mod: Text of the file.
        path: Module path, such as `k8s.io/kubernetes`.

    Returns:
        Such as `v1.35.4`.

    Raises:
        ValueError: The file does not require the module.
    """
    found = re.search(rf"^(?:require)?\s*{re.escape(path)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ValueError(f"go.mod does not require {path}")
    return found[1]


def link_flags(module: ToolModule, go_mod: str) -> str:
    """The `-ldflags` of a module: no symbol tables, and the version where clients negotiate by it."""
    flags = "-s -w"
    if module.versioned:
        version = module_version(go_mod, module.versioned)
        major, minor, _ = version.removeprefix("v").split(".", 2)
        package = "k8s.io/component-base/version"
        flags += f" -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
        flags += f" -X {package}.gitTreeState=clean"
    return flags


def module_digest(folder: Path, flags: str) -> str:
    """A name for all inputs of a build: 12 hex digits.

    Args:
        folder: The Go module; its go.mod, go.sum and Go sources count.
        flags: The link flags.
    """
    digest = hashlib.sha256(flags.encode())
    for file in sorted(path for path in folder.iterdir() if path.name in {"go.mod", "go.sum"} or path.suffix == ".go"):
        content = file.read_bytes()
        digest.update(f"\0{file.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


class Tools:
    """The binaries of all modules, built on demand."""

    def __init__(self, sources: Path, cache: Path, modules: tuple[ToolModule, ...] = MODULES) -> None:
        """Read the sources; builds nothing.

        Args:
            sources: Folder with one Go module for each product.
            cache: Folder of the binaries, with one folder for each module and version.
            modules: The modules.
        """
        self._modules = modules
        self._sources = sources
        self._folders: dict[str, Path] = {}
        self._flags: dict[str, str] = {}
        for module in self._modules:
            flags = link_flags(module, (sources / module.name / "go.mod").read_text())
            self._flags[module.name] = flags
            self._folders[module.name] = cache / "bin" / f"{module.name}-{module_digest(sources / module.name, flags)}"
        self._logs = cache / "logs"

    def path(self, binary: str) -> Path:
        """The path of a binary, also before its build.

        Raises:
            KeyError: No module builds it.
        """
        for module in self._modules:
            if binary in module.binaries:
                return self._folders[module.name] / binary
        raise KeyError(binary)

    def fingerprint(self) -> str:
        """A hash of the versions of all modules."""
        return " ".join(folder.name for folder in self._folders.values())

    def missing(self) -> list[ToolModule]:
        """The modules that are not in the cache."""
        return [module for module in self._modules if not self._folders[module.name].is_dir()]

    def build(self, module: ToolModule, find_go: Callable[[], Path]) -> None:
        """Build one module into the cache: minutes for Kubernetes and kubeflow, half a minute for the others.

        Raises:
            CommandFailed: The compiler or the module download failed.
            ClusterError: The build produced other commands than `binaries`.
        """
        target = self._folders[module.name]
        with exclusive(target.parent / f".{module.name}.lock"):
            if not target.is_dir():  # else another command built it while this one waited
                self._build(module, target, find_go())
        self._forget_other_versions(module, keep=target)

    def log(self, module: ToolModule) -> Path:
        """The log of a module's build."""
        return self._logs / f"build-{module.name}.log"

    def _build(self, module: ToolModule, target: Path, go: Path) -> None:
        environment = {
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly",
            "GOTOOLCHAIN": "auto",
            "GOWORK": "off",
            # Compiler and linker collect garbage only when a process reaches 1.5 GB: an eighth of their time.
            "GOGC": "off",
            "GOMEMLIMIT": "1500MiB",
        }
        with tempfile.TemporaryDirectory(prefix=f".{module.name}-", dir=target.parent) as scratch:
            made = Path(scratch) / "bin"
            made.mkdir()
            flags = self._flags[module.name]
            command = [str(go), "build", "-v", "-trimpath", "-ldflags", flags, "-o", f"{made}/", module.packages]
            run(command, env=environment, cwd=self._sources / module.name, log=self.log(module))
            if module.one_program:
                for name in module.binaries:
                    (made / name).symlink_to(module.name)
            for made_as, known_as in module.rename:
                (made / made_as).rename(made / known_as)
            if missing := set(module.binaries) - {path.name for path in made.iterdir()}:
                raise ClusterError(
                    f"Building {module.name} did not produce {sorted(missing)}; its tool directives must name them"
                )
            made.rename(target)

    def link(self, folder: Path, binaries: tuple[str, ...]) -> None:
        """Make `folder` hold a link to each of the binaries, for the user's PATH."""
        folder.mkdir(parents=True, exist_ok=True)
        for binary in binaries:
            link = folder / binary
            link.unlink(missing_ok=True)
            link.symlink_to(self.path(binary))

    def _forget_other_versions(self, module: ToolModule, keep: Path) -> None:
        """Keep this version and the one before it: two clones at neighbouring versions do not rebuild in turns."""
        others = [path for path in keep.parent.glob(f"{module.name}-*") if path != keep]
        for stale in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[1:]:
            shutil.rmtree(stale)
