"""The long tests in groups: `make long G=<group>` runs one, `make test-long` all, and CI one that its commit chooses.

`tests/long.txt` records date, commit and minutes of the last green run of each group. CI chooses among the groups that
have one; it cannot commit, so whoever runs a group commits the record.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests/long.txt"
MINUTES = 15  # at most, so that CI ends within 90 minutes also on a slow day
USUAL_MINUTES = 10  # of a group that CI may choose
ENDING_SECONDS = 120  # for what a group leaves, after its time
PYTHON = sys.executable
TOOLS = (PYTHON, "-m", "local_cluster", "tools")
Command = tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """Long tests that run together.

    Attributes:
        about: What they show.
        paths: Files and folders with the mark `long`.
        commands: What runs before them, or instead.
        minutes: Limit of a run.
        ci: Whether CI may choose it: its result depends on the commit alone.
    """

    about: str
    paths: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    minutes: int = MINUTES
    ci: bool = True

    def all_commands(self, seed: int) -> list[Command]:
        """What a run executes, one after the other."""
        cluster = any(each[: len(TOOLS)] == TOOLS for each in self.commands)  # there is one, so one process uses it
        workers = () if cluster else ("-n", "2", "--dist", "loadscope")
        tests = [(PYTHON, "-m", "pytest", *workers, "--durations=10", "-m", "long", *self.paths)] if self.paths else []
        return [*(tuple(word.replace("{seed}", str(seed)) for word in each) for each in self.commands), *tests]


def e2e(*names: str) -> tuple[str, ...]:
    """Files of the end-to-end suite."""
    return tuple(f"tests/e2e/test_{name}.py" for name in names)


GROUPS = {
    "advisories": Group("known vulnerabilities", (), ((PYTHON, "-m", "eventconsumer_release.audit"),), ci=False),
    "mutants": Group("the simulation notices each broken host", ("tests/simulation/test_mutants.py",)),
    "simulation": Group(
        "hosts in virtual time, with a seed of each commit's own",
        tuple(f"tests/simulation/test_{name}.py" for name in ("balance_times", "fleet_partitions", "storagecalls")),
        ((PYTHON, "-m", "tests.simulation", "--steps", "40000", "--seed", "{seed}"),),
    ),
    "properties": Group(
        "property tests with new examples",
        (),
        (("env", "HYPOTHESIS_PROFILE=long", PYTHON, "-m", "pytest", "-n", "2", "tests/unit"),),
    ),
    "fuzz": Group("parsers and decoder, guided by coverage", (), (("make", "-s", "fuzz", "SECONDS=300"),)),
    "contract": Group("thousands of objects, and what the base image has", ("tests/contract",)),
    "faults": Group("hosts that are killed, stopped, and on clocks that run wrong", ("tests/faults",)),
    "hosts": Group("hosts beside other programs, and large hubs", ("tests/integration/processor",)),
    "spark": Group("Spark drivers that are killed, frozen or slow", ("tests/integration/spark",)),
    "java": Group(
        "Microsoft's Java libraries beside hosts",
        ("tests/integration/interop/test_java.py",),
        (("local/need", "javac", "openjdk-17-jdk-headless"), ("local/need", "mvn", "maven")),
    ),
    "keda": Group("KEDA's scaler beside hosts", ("tests/integration/interop/test_keda.py",)),
    "attackers": Group("attacks that last", ("tests/attackers", "--ignore=tests/attackers/cluster")),
    "outsiders": Group("Go's client beside hosts, and a stream after retention", ("tests/outsiders",)),
    "cluster-attackers": Group("attacks inside the cluster", ("tests/attackers/cluster",), (TOOLS,)),
    "cluster-quotas": Group("quotas, and a cluster that lost its processes", ("tests/e2e/cluster",), (TOOLS,)),
    "cluster-hosts": Group("takeover, identity and scaling", e2e("handover", "identity", "scaling"), (TOOLS,)),
    "cluster-data": Group("Avro, dead letters, gaps, notices", e2e("avro", "deadletters", "gaps", "notices"), (TOOLS,)),
    "cluster-tools": Group(
        "moves, checkpoints, replays, retention", e2e("move", "plugin_tools", "replay", "retention"), (TOOLS,)
    ),
    "cluster-spark": Group("Spark in the cluster", e2e("spark"), (TOOLS,)),
    "cluster-executors": Group("executors and resident drivers", e2e("spark_kept"), (TOOLS,)),
    "kubeflow": Group("Spark by kubeflow's operator", e2e("kubeflow"), ((*TOOLS, "--kubeflow"),)),
    "gitops": Group("Argo CD's engine", ("tests/e2e/gitops",), ((*TOOLS, "--gitops"),)),
    "upgrade": Group("a release is upgraded while it drains", e2e("upgrade"), (TOOLS,)),
    "chaos": Group("ten minutes of chaos", e2e("chaos"), (TOOLS,), minutes=60),
}


class Green(NamedTuple):
    """The last green run of a group."""

    date: str
    commit: str
    minutes: float


def recorded(file: Path = RECORD) -> dict[str, Green]:
    """Last green runs by group."""
    lines = [line.split() for line in file.read_text().splitlines() if not line.startswith("#")]
    return {name: Green(date, commit, float(minutes)) for name, date, commit, minutes in lines}


def record(greens: dict[str, Green], file: Path = RECORD) -> None:
    """Write the file."""
    comment = [line for line in file.read_text().splitlines() if line.startswith("#")]
    rows = [f"{name:18} {green.date} {green.commit} {green.minutes:.1f}" for name, green in sorted(greens.items())]
    file.write_text("\n".join([*comment, *rows]) + "\n")


def for_ci(greens: dict[str, Green]) -> list[str]:
    """The groups that CI chooses from: those with a green run that was short enough."""
    fits = {name for name, green in greens.items() if green.minutes <= USUAL_MINUTES}
    return sorted(name for name, group in GROUPS.items() if group.ci and name in fits)


def chosen(commit: str, names: list[str]) -> list[str]:
    """The group of a commit; none, with a message, if no green run is recorded that is short enough."""
    if not names:
        print(f"{RECORD.name} has no green run of a group for CI: run `make long G=mutants`, and commit the file")
    return [sorted(names)[int(commit, 16) % len(names)]] if names else []


def show() -> None:
    """Print the record, and the group whose green run is the oldest."""
    greens = recorded()
    for name, group in GROUPS.items():
        green = greens.get(name)
        last = f"{green.date} {green.commit} {green.minutes:5.1f} min" if green else "no green run"
        print(f"{name:18} {last:38} {group.about}")
    oldest = min(GROUPS, key=lambda name: greens[name].date if name in greens else "")
    print(f"The oldest is {oldest}: run `make long G={oldest}`, and commit tests/long.txt.", flush=True)


def run(name: str, seed: int) -> float | None:
    """Run a group; minutes that it took, or None where it failed."""
    group, begun = GROUPS[name], time.monotonic()
    for command in group.all_commands(seed):
        print(f"{name}: {' '.join(command)}", flush=True)
        code = run_command(command, begun + group.minutes * 60 - time.monotonic())
        if code is None:
            print(f"{name} was ended after {group.minutes} minutes. Split the group in tests/support/rotation.py.")
            return None
        if code:
            print(f"{name} failed. Repeat it with `make long G={name}`.")
            return None
    return (time.monotonic() - begun) / 60


def run_command(command: Command, seconds: float) -> int | None:
    """Run it with all that it starts; its exit code, or None where its time ended."""
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)  # pytest ends what its fixtures started
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return None
    except BaseException:
        os.killpg(process.pid, signal.SIGINT)
        raise


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Run groups of long tests; without one, show the last green run of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.rotation", description=main.__doc__)
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS))
    parser.add_argument("--all", action="store_true", help="all groups")
    parser.add_argument("--ci", action="store_true", help="the group of this commit; nothing is recorded")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.groups) - set(GROUPS))
    if unknown:
        parser.error(f"no group is called {', '.join(unknown)}; the groups are {', '.join(GROUPS)}")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
    commit, greens = _git("rev-parse", "HEAD"), recorded()
    names = [*GROUPS] if arguments.all else arguments.groups
    if arguments.ci:
        names = chosen(commit, for_ci(greens))
    elif not names:
        show()
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!tests/long.txt")
    failed = 0
    for name in names:
        minutes = run(name, int(commit[:6], 16))
        failed += minutes is None
        if minutes is not None:
            print(f"{name}: green, {minutes:.1f} minutes", flush=True)
        if minutes is not None and not arguments.ci:
            written = commit[:12] + ("-changed" if changed else "")
            record(recorded() | {name: Green(f"{datetime.now(UTC):%Y-%m-%d}", written, minutes)})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
