"""The build hook: the decoder's library gets into wheels and editable installations, or it is said what is missing."""

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.tags import Tag, sys_tags

ROOT = Path(__file__).parents[3]
CRATE = ROOT / "processor_image/decoder"
PACKAGE = "python/eventconsumer_decoder"
LIBRARY = "libeventconsumer_decoder.so"
CARGO = """\
#!/bin/sh
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2/release"
printf compiled >"$2/release/libeventconsumer_decoder.so"
echo "$TMPDIR|$2|$PWD" >"$SAID"
exit "${CARGO_FAILS:-0}"
"""


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", CRATE / "hatch_build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    """A copy without what was compiled."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "target")
    return Path(shutil.copytree(CRATE, tmp_path / "a crate", ignore=ignored))


@pytest.fixture
def cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cargo that compiles in no time; what it was given is in the file."""
    program = tmp_path / "bin/cargo"
    program.parent.mkdir()
    program.write_text(CARGO)
    program.chmod(0o755)
    said = tmp_path / "said"
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("SAID", str(said))
    return said


def hatchling(crate: Path, target: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", "made"],
        cwd=crate,
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
    )


def made(crate: Path) -> tuple[str, dict[str, bytes]]:
    (wheel,) = (crate / "made").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return wheel.name, {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.usefixtures("cargo")
def test_a_wheel_holds_the_library_and_suits_every_python_of_this_platform(crate: Path, hook: ModuleType) -> None:
    done = hatchling(crate, "wheel")
    assert done.returncode == 0, done.stderr
    name, held = made(crate)
    tag = hook.platform_tag()
    assert name.endswith(f"-py3-none-{tag}.whl")
    assert Tag("py3", "none", tag) in set(sys_tags())
    assert held[f"eventconsumer_decoder/{LIBRARY}"] == b"compiled"
    assert {"eventconsumer_decoder/__init__.py", "eventconsumer_decoder/py.typed"} <= held.keys()
    (metadata,) = (content.decode() for name, content in held.items() if name.endswith("/WHEEL"))
    assert "Root-Is-Purelib: false" in metadata


@pytest.mark.usefixtures("cargo")
def test_an_editable_installation_finds_it_beside_the_module(crate: Path) -> None:
    done = hatchling(crate, "wheel:editable")
    assert done.returncode == 0, done.stderr
    assert (crate / PACKAGE / LIBRARY).read_bytes() == b"compiled"
    _, held = made(crate)
    (pointer,) = (content.decode() for name, content in held.items() if name.endswith(".pth"))
    assert Path(pointer.strip()) == crate / "python"


def test_a_loaded_library_is_replaced_and_nothing_else_is_left(crate: Path, hook: ModuleType, cargo: Path) -> None:
    library = crate / PACKAGE / LIBRARY
    library.write_bytes(b"older")
    before = set(crate.rglob("*"))
    with library.open("rb") as loaded:
        hook.compile_library(crate, library)
        assert loaded.read() == b"older"
    assert library.read_bytes() == b"compiled"
    assert library.stat().st_mode & 0o777 == 0o644
    assert set(crate.rglob("*")) == before
    _, target, folder = cargo.read_text().strip().split("|")
    assert not Path(target).exists()
    assert Path(folder) == crate


@pytest.mark.usefixtures("cargo")
@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CARGO_FAILS": "101"}, ("cargo could not compile it",)),
        ({"PATH": "/nowhere"}, ("apt-get install cargo", "optional")),
    ],
)
def test_without_cargo_or_where_it_fails_nothing_changes(
    crate: Path, environment: dict[str, str], says: tuple[str, ...]
) -> None:
    library = crate / PACKAGE / LIBRARY
    library.write_bytes(b"older")
    done = hatchling(crate, "wheel", **environment)
    assert done.returncode == 1
    assert all(text in done.stderr for text in says) and "Traceback" not in done.stderr
    assert library.read_bytes() == b"older"
    assert not list(crate.glob("made/*.whl"))


def test_a_source_distribution_needs_no_compiler_and_holds_the_sources_of_a_wheel(crate: Path) -> None:
    (crate / PACKAGE / LIBRARY).write_bytes(b"of this machine")
    done = hatchling(crate, "sdist", PATH="/nowhere")
    assert done.returncode == 0, done.stderr
    (archive,) = (crate / "made").glob("*.tar.gz")
    shutil.unpack_archive(archive, crate / "unpacked")
    (folder,) = (crate / "unpacked").iterdir()
    held = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"Cargo.toml", "Cargo.lock", "src/lib.rs", "hatch_build.py", f"{PACKAGE}/__init__.py"} <= held
    assert f"{PACKAGE}/{LIBRARY}" not in held


@pytest.mark.parametrize(
    ("libc", "platform", "tag"),
    [
        (("glibc", "2.36"), "linux-x86_64", "manylinux_2_36_x86_64"),
        (("glibc", "2.41"), "linux-aarch64", "manylinux_2_41_aarch64"),
        (("", ""), "linux-x86_64", "linux_x86_64"),
        (("", ""), "macosx-11.0-arm64", "macosx_11_0_arm64"),
    ],
)
def test_platforms(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, libc: tuple[str, str], platform: str, tag: str
) -> None:
    monkeypatch.setattr(hook.platform, "libc_ver", lambda: libc)
    monkeypatch.setattr(hook.sysconfig, "get_platform", lambda: platform)
    assert hook.platform_tag() == tag


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, []),
        ({"RUSTFLAGS": "-C target-cpu=native"}, ["-C", "target-cpu=native"]),
        ({"RUSTFLAGS": "-C a", "CARGO_ENCODED_RUSTFLAGS": "--cfg\x1fb c"}, ["--cfg", "b c"]),
    ],
)
def test_the_compiler_s_flags_are_those_given_and_the_ones_that_hide_folders(
    hook: ModuleType, given: dict[str, str], kept: list[str]
) -> None:
    variables = hook.environment(Path("/a b"), given | {"CARGO_HOME": "/h", "CARGO_BUILD_TARGET": "other", "X": "1"})
    hidden = ["--remap-path-prefix=/h=/cargo", "--remap-path-prefix=/a b=/eventconsumer-decoder"]
    assert variables.pop("CARGO_ENCODED_RUSTFLAGS").split("\x1f") == [*kept, *hidden]
    assert variables == {"CARGO_HOME": "/h", "X": "1"}
