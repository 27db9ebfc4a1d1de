"""`make size`: lines of tests for one line of the product; the aim is at most 1.1.

Product is code in Python, Rust, JavaScript and shell of the folders below. Attackers, outsiders, benchmarks and fuzzing
of the decoder do not count: they are programs of their own beside the tests.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("cli/", "crds/", "local/", "operator/", "processor_image/", "spark/", "storage/")
BESIDE = ("processor_image/decoder/fuzz/", "tests/attackers/", "tests/bench/", "tests/outsiders/")
KINDS = {".c", ".go", ".java", ".js", ".py", ".rs", ".sh"}
AT_MOST = 1.1


def lines(folders: tuple[str, ...]) -> int:
    """Lines of code in folders of the repository."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [ROOT / name for name in listed.splitlines() if not name.startswith(BESIDE)]
    return sum(len(file.read_text().splitlines()) for file in files if file.is_file() and _is_code(file))


def _is_code(file: Path) -> bool:
    return file.suffix in KINDS or (not file.suffix and file.read_bytes().startswith(b"#!"))


def main() -> int:
    """Print both and the ratio; 1 where it is above the aim."""
    product, tests = lines(PRODUCT), lines(("tests/",))
    print(f"product {product:,} lines, tests {tests:,} lines: {tests / product:.3f} for one, at most {AT_MOST}")
    return int(tests > AT_MOST * product)


if __name__ == "__main__":
    sys.exit(main())
