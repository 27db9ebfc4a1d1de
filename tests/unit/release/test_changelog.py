"""The section of a version, word for word, or an error that says what to write."""

from pathlib import Path

import pytest

from eventconsumer_release.changelog import section
from eventconsumer_release.errors import ReleaseError

TEXT = """\
# Changelog

## [Unreleased]

### Added
- Later.

## [1.1.0] - 2026-10-01

### Fixed
- A host that [stops](docs/x.md).

## [1.0.0] - 2026-09-01

### Added
- All of it.

## [0.9.0]
- Without a date.

## [0.8.0] - 2026-01-01

[1.0.0]: https://example.com/1.0.0
[0.9.0]: https://example.com/0.9.0
"""


def test_a_section_in_the_middle() -> None:
    assert section(TEXT, "1.1.0") == "## [1.1.0] - 2026-10-01\n\n### Fixed\n- A host that [stops](docs/x.md).\n"


def test_the_last_section_ends_with_the_file() -> None:
    assert section("## [1.0.0] - 2026-09-01\n- All of it.", "1.0.0") == "## [1.0.0] - 2026-09-01\n\n- All of it.\n"


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1.0", r"no section of 1\.0: put `## \[1\.0\] - YYYY-MM-DD`"),
        ("2.0.0", "no section of 2.0.0"),
        ("0.9.0", "section of 0.9.0 in CHANGELOG.md has no date"),
        ("0.8.0", r"section \[0\.8\.0\] of CHANGELOG.md is empty"),
    ],
)
def test_a_missing_or_incomplete_section_is_an_error(version: str, told: str) -> None:
    with pytest.raises(ReleaseError, match=told):
        section(TEXT, version)


def test_this_repository_s_changelog_has_the_format() -> None:
    text = (Path(__file__).parents[3] / "CHANGELOG.md").read_text()
    assert "\n## [" in text
    cut = text.replace("## [Unreleased]", "## [Unreleased]\n\n## [99.0.0] - 2026-01-02", 1)
    assert section(cut, "99.0.0").startswith("## [99.0.0] - 2026-01-02\n\n")
