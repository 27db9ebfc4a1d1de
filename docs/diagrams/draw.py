"""Draws docs/diagrams/*.dot as SVG: `make diagrams`. Each picture contains the digest of its text."""

import hashlib
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent


def mark(text: bytes) -> str:
    """The mark of a picture of this text."""
    return f"<!-- of a text with SHA-256 {hashlib.sha256(text).hexdigest()} -->"


def main() -> None:
    """Draw all."""
    for source in sorted(FOLDER.glob("*.dot")):
        drawn = subprocess.run(["dot", "-Tsvg", source], check=True, capture_output=True, text=True).stdout
        head, tag, rest = drawn.partition("<svg")
        source.with_suffix(".svg").write_text(f"{head}{mark(source.read_bytes())}\n{tag}{rest}")


if __name__ == "__main__":
    main()
