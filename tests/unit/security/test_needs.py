"""The lists of `make t`: each folder of tests that uses a component is in the list of the target that makes it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text().replace("\\\n", "")
NEEDS = {name: tuple(folders.split()) for name, folders in re.findall(r"^NEED_(\w+) := (.+)$", MAKEFILE, re.MULTILINE)}
SIGNS = {
    "peer": r"\bpeer_process\b|: PeerProcess\b|^(?:from|import) proton\b",
    "azurite": r": AzuriteProcess\b|\bAzuriteProcess\(",
    "classes": r": SparkSession\b",
    "tools": r"\bfind_binary\(|tests\.support\.apiserver import",
    "programs": r"tests\.support\.forwardproxy import",
}
"""What a test has that uses the component."""


def used() -> set[tuple[str, str]]:
    """Component and file of each test that uses it."""
    files = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    return {
        (name, str(path.relative_to(ROOT)))
        for path, text in files.items()
        for name, sign in SIGNS.items()
        if re.search(sign, text, re.MULTILINE) and path != Path(__file__)
    }


def test_each_folder_exists_and_each_target_too() -> None:
    assert set(SIGNS) | {"outsiders"} == set(NEEDS)
    for name, folders in NEEDS.items():
        assert re.search(rf"^{name}:", MAKEFILE, re.MULTILINE), name
        assert all((ROOT / folder).is_dir() for folder in folders), name


@pytest.mark.parametrize(("name", "file"), sorted(used()))
def test_what_a_test_uses_is_made_before(name: str, file: str) -> None:
    assert any(file.startswith(f"{folder}/") for folder in NEEDS[name]), f"NEED_{name} of the Makefile lacks its folder"


def test_uses_are_found() -> None:
    assert {name for name, _ in used()} == set(SIGNS)
