"""The decoder's crate: its own tests pass, it is formatted, and Debian's cargo can read it."""

import subprocess
import tomllib
from pathlib import Path

import pytest

CRATE = Path(__file__).parents[3] / "processor_image/decoder"


def cargo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["cargo", *arguments]
    return subprocess.run(command, cwd=CRATE, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_its_own_tests_pass(tmp_path: Path) -> None:
    done = cargo("test", "--locked", "--offline", "--target-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("manifest", ["Cargo.toml", "fuzz/Cargo.toml"])
def test_it_is_formatted(manifest: str) -> None:
    done = cargo("fmt", "--check", "--manifest-path", manifest)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_oldest_supported_cargo_can_read_it() -> None:
    package = tomllib.loads((CRATE / "Cargo.toml").read_text())["package"]
    assert (package["rust-version"], package["edition"]) == ("1.63", "2021")  # Debian 12's
    assert tomllib.loads((CRATE / "Cargo.lock").read_text())["version"] == 3  # 4 is unknown to it


def test_it_needs_no_crates_of_others() -> None:
    manifest = tomllib.loads((CRATE / "Cargo.toml").read_text())
    assert not [name for name in manifest if name.endswith("dependencies")]


def test_what_fuzzing_needs_is_pinned_and_in_no_package() -> None:
    lock = tomllib.loads((CRATE / "fuzz/Cargo.lock").read_text())
    assert [each["name"] for each in lock["package"] if "checksum" not in each] == ["eventconsumer-decoder-fuzz"]
    files = tomllib.loads((CRATE / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert "fuzz" not in files["sdist"]["only-include"]
    assert files["wheel"]["packages"] == ["python/eventconsumer_decoder"]
