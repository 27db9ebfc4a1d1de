"""`python -m tests.fuzz --seconds N`: run all targets for N seconds together, and print what they found.

Inputs that a run adds are in build/fuzz; `--keep` replaces the corpus in the repository by the smallest set of them
that reaches the same code.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.fuzz import corpus, engines
from tests.fuzz.targets import TARGETS

RUNS = [("decoder", target) for target in engines.COMPILED] + [("python", target) for target in TARGETS]
_KEPT_BYTES = 15_000  # of a target in the repository


def main() -> int:
    """Run; 1 if a target failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="of all targets together")
    parser.add_argument("--target", action="append", help="a target, or several: all by default")
    parser.add_argument("--keep", action="store_true", help="replace the corpus in the repository")
    options = parser.parse_args()
    chosen = [(engine, target) for engine, target in RUNS if target in (options.target or [target])]
    (engines.BUILD / "found").mkdir(parents=True, exist_ok=True)
    if any(engine == "decoder" for engine, _ in chosen):
        engines.build()
    failed = [not _run(engine, target, max(1, options.seconds // len(chosen))) for engine, target in chosen]
    if options.keep:
        for target in dict.fromkeys(target for _, target in chosen):
            _keep(target, [engine for engine, name in chosen if name == target])
    return int(any(failed))


def _run(engine: str, target: str, seconds: int) -> bool:
    """Run a target, and print its figures; whether it found nothing."""
    found = _folder(target)
    for number, data in enumerate(corpus.read(target)):
        (found / f"corpus-{number:03d}").write_bytes(data)
    log = engines.BUILD / f"{engine}-{target}.log"
    with log.open("w") as output:
        command = engines.command(engine, target, f"-max_total_time={seconds}", str(found))
        done = subprocess.run(command, cwd=engines.ROOT, stdout=output, stderr=output, check=False)
    text = log.read_text(errors="replace")
    edges = re.findall(r"cov: (\d+)", text)
    count, rate = (
        re.findall(rf"stat::{name}: +(\d+)", text) for name in ("number_of_executed_units", "average_exec_per_sec")
    )
    figures = [
        f"{int(each[-1]):,} {unit}" for each, unit in ((count, "inputs"), (rate, "a second"), (edges, "edges")) if each
    ]
    print(f"{engine:8}{target:12}" + ", ".join(figures), flush=True)
    if done.returncode:
        print(f"  failed: see {log.relative_to(engines.ROOT)}, and the input in build/fuzz/found", flush=True)
    return done.returncode == 0


def _folder(target: str) -> Path:
    folder = engines.BUILD / "inputs" / target
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _keep(target: str, used: list[str]) -> None:
    """Write the smallest set of inputs to the repository, shortest first, up to a size."""
    kept: set[bytes] = set()
    for engine in used:
        smallest = engines.BUILD / "smallest"
        shutil.rmtree(smallest, ignore_errors=True)
        smallest.mkdir()
        command = engines.command(engine, target, "-merge=1", str(smallest), str(_folder(target)))
        subprocess.run(command, cwd=engines.ROOT, stderr=subprocess.DEVNULL, check=True)
        kept |= {path.read_bytes() for path in smallest.iterdir()}
    size, chosen = 0, []
    for data in sorted(kept, key=len):
        size += len(corpus.encode(data)) + 1
        if size <= _KEPT_BYTES:
            chosen.append(data)
    corpus.write(target, chosen)


if __name__ == "__main__":
    sys.exit(main())
