"""Compiles the decoder's library for its wheel, and beside its Python module for an editable installation.

Invariant: the same sources and the same compiler produce the same library, in any folder.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "libeventconsumer_decoder.so"  # on every platform: ctypes does not need the platform's suffix
_MADE = ("libeventconsumer_decoder.so", "libeventconsumer_decoder.dylib")
_PACKAGE = "python/eventconsumer_decoder"
_OPTIONAL = "The decoder is optional: eventconsumer-processor runs without it, slower."


class Unbuildable(Exception):
    """The library cannot be compiled on this machine, or the compilation failed."""


class LibraryHook(BuildHookInterface):  # type: ignore[type-arg]
    """The hook that hatchling calls before it builds a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library beside the module, and set the wheel's platform.

        Args:
            version: "standard", or "editable"; both need the library.
            build_data: Hatchling's description of the wheel; changed here.
        """
        root = Path(self.root)
        try:
            compile_library(root, root / _PACKAGE / LIBRARY)
        except Unbuildable as error:
            self.app.abort(f"eventconsumer-decoder: {error} {_OPTIONAL}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"  # ctypes loads it: no tie to one version of Python
        build_data["artifacts"].append(f"/{_PACKAGE}/{LIBRARY}")  # which Git ignores


def compile_library(root: Path, target: Path) -> None:
    """Compile the crate.

    Args:
        root: Its folder.
        target: The file to write. An existing file is replaced, not changed: a process may have loaded it.

    Raises:
        Unbuildable: Cargo is missing, or it failed and has printed the reason.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise Unbuildable("cargo is required to compile it from Rust: install it (Debian: apt-get install cargo).")
    with tempfile.TemporaryDirectory(prefix="eventconsumer-decoder-") as folder:
        command = [cargo, "build", "--release", "--locked", "--offline", "--target-dir", folder]
        if subprocess.run(command, cwd=root, env=environment(root, os.environ), check=False).returncode != 0:
            raise Unbuildable("cargo could not compile it, see above.")
        made = [path for name in _MADE if (path := Path(folder, "release", name)).is_file()]
        if not made:
            raise Unbuildable("cargo compiled it for a different platform than this machine's: unset build.target.")
        staged = target.with_name(f".{os.getpid()}-{target.name}")
        try:
            shutil.copyfile(made[0], staged)
            staged.chmod(0o644)
            staged.replace(target)
        finally:
            staged.unlink(missing_ok=True)


def environment(root: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Variables for cargo: the given ones, and flags that keep folder names out of the library.

    Args:
        root: The crate's folder.
        given: Variables of this process, including its flags for the compiler.
    """
    variables = {name: value for name, value in given.items() if name not in {"CARGO_BUILD_TARGET", "RUSTFLAGS"}}
    encoded = given.get("CARGO_ENCODED_RUSTFLAGS", "")
    flags = encoded.split("\x1f") if encoded else shlex.split(given.get("RUSTFLAGS", ""))
    home = given.get("CARGO_HOME") or str(Path.home() / ".cargo")
    flags += [f"--remap-path-prefix={home}=/cargo", f"--remap-path-prefix={root}=/eventconsumer-decoder"]
    return variables | {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags)}  # encoded: folders may have blanks


def platform_tag() -> str:
    """The platform that the library runs on: with glibc, this machine's version or newer; else this platform."""
    name, version = platform.libc_ver()
    here = sysconfig.get_platform()
    if here.startswith("linux-") and name == "glibc":
        major, minor = version.split(".")[:2]
        here = f"manylinux_{major}_{minor}_{here.removeprefix('linux-')}"
    return here.replace("-", "_").replace(".", "_")
