"""libFuzzer for the compiled decoder (Rust) and, by Atheris, for the parsers in Python.

The flags of rustc are those of cargo-fuzz: coverage, and AddressSanitizer, which stops at any access outside of an
allocation (https://github.com/rust-fuzz/cargo-fuzz/blob/02471f053fe1/src/project.rs). A stable rustc has both, but
accepts the sanitizer's flag only with RUSTC_BOOTSTRAP:
https://doc.rust-lang.org/unstable-book/compiler-flags/sanitizer.html.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/fuzz"
CRATE = ROOT / "processor_image/decoder/fuzz"
COMPILED = ("messages", "scan", "join", "arguments", "bodies")  # targets of the crate
MAX_BYTES = 600  # of an input: longer ones reach nothing new, and cost more
_FLAGS = (
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",  # else two conditions are one edge
    "-Zsanitizer=address",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "--cfg",
    "fuzzing",
)
_LIMITS = (f"-max_len={MAX_BYTES}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1")


def build() -> None:
    """Compile the decoder's targets.

    Raises:
        CalledProcessError: cargo failed, and has printed the reason.
    """
    host = re.findall(r"host: (\S+)", _printed("rustc", "-vV"))[0]
    flags = {"RUSTC_BOOTSTRAP": "1", "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(_FLAGS)}
    # With --target, the flags are not for what runs during the compilation.
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--target", host, "--target-dir", BUILD / "target"]
    subprocess.run(command, cwd=CRATE, env=os.environ | flags, check=True)
    for target in COMPILED:
        link = BUILD / f"decoder-{target}"
        link.unlink(missing_ok=True)
        link.symlink_to(BUILD / "target" / host / "release" / target)


def command(engine: str, target: str, *options: str) -> list[str]:
    """The command of a target.

    Args:
        engine: "decoder" or "python".
        target: Its name.
        options: Options of libFuzzer, and folders: the first one receives new inputs.
    """
    program = (
        [str(BUILD / f"decoder-{target}")]
        if engine == "decoder"
        else [sys.executable, "-m", "tests.fuzz.harness", target]
    )
    return [*program, *_LIMITS, f"-artifact_prefix={BUILD / 'found'}/{engine}-{target}-", *options]


def _printed(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
