"""PURE: the section of one version in a changelog of the format Keep a Changelog."""

import re

from eventconsumer_release.errors import ReleaseError

_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?\s*$", re.MULTILINE)
_LINK = re.compile(r"^\[[^\]]+\]: \S+$", re.MULTILINE)


def section(text: str, version: str) -> str:
    """The section of a version in CHANGELOG.md, with its heading.

    Raises:
        ReleaseError: There is no such section, it has no date, or it is empty.
    """
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading["version"] != version:
            continue
        if heading["date"] is None:
            raise ReleaseError(
                f"The section of {version} in CHANGELOG.md has no date: write `## [{version}] - YYYY-MM-DD`."
            )
        body = text[heading.end() : following.start() if following else None]
        body = re.sub(_LINK, "", body).strip()
        if not body:
            raise ReleaseError(f"The section [{version}] of CHANGELOG.md is empty: describe the changes for users.")
        return f"{heading[0].strip()}\n\n{body}\n"
    raise ReleaseError(
        f"CHANGELOG.md has no section of {version}: put `## [{version}] - YYYY-MM-DD` below `## [Unreleased]`, "
        "above its entries, and commit."
    )
