"""The Debian mirror of this machine."""

import os
import re
from pathlib import Path

MIRROR_VARIABLE = "DEBIAN_MIRROR"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
_SOURCES = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d/debian.sources"))


def mirror_of(sources: str) -> str | None:
    """The first mirror of Debian itself (not of its security updates, nor of others) that apt sources name.

    Args:
        sources: Text of a sources.list or of a deb822 `.sources` file.
    """
    for line in sources.splitlines():
        found = re.match(r"^\s*(?:deb(?:\s+\[[^\]]*\])?|URIs:)\s+(https?://\S+/debian)/?(?:\s|$)", line)
        if found:
            return found[1]
    return None


def debian_mirror() -> str:
    """The mirror: from the environment, otherwise apt's, otherwise Debian's own."""
    if chosen := os.environ.get(MIRROR_VARIABLE):
        return chosen
    for path in _SOURCES:
        if path.exists() and (mirror := mirror_of(path.read_text())):
            return mirror
    return DEFAULT_MIRROR
