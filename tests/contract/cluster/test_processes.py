"""Processes are known by pid and start time, and only those that were started are ended."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster import procfs
from local_cluster.components import Component, SocketProbe
from local_cluster.errors import CommandFailed, NotReady
from local_cluster.probes import Prober
from local_cluster.processes import ProcessTable, Record
from local_cluster.procfs import Identity, Process
from local_cluster.shell import pipe, run


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    table = ProcessTable(tmp_path / "records", tmp_path / "logs", Prober(tmp_path / "pki"))
    yield table
    for name in table.recorded():
        table.stop(name, patience=0.1)


def component(tmp_path: Path, program: str, patience: float = 5.0) -> Component:
    return Component(
        "worker", (sys.executable, "-c", program), SocketProbe(tmp_path / "socket"), wave=0, patience=patience
    )


LISTEN = """
import socket, sys, time
server = socket.socket(socket.AF_UNIX); server.bind({path!r}); server.listen()
time.sleep(60)
"""


def test_fields_are_counted_after_the_last_parenthesis() -> None:
    line = "42 (a ) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2"
    assert procfs.parse_stat(line) == ("S", 7, 987654)


def test_a_recycled_pid_is_another_process() -> None:
    mine = procfs.observe(os.getpid())
    assert mine is not None
    assert procfs.is_alive(mine.identity)
    stranger = Identity(mine.identity.pid, mine.identity.started - 1)
    assert not procfs.is_alive(stranger)
    assert not procfs.send(stranger, signal.SIGKILL)  # had it been sent, this test would not continue


def test_an_ended_child_is_not_alive_while_it_is_a_zombie() -> None:
    child = subprocess.Popen(["sleep", "60"])
    seen = procfs.observe(child.pid)
    assert seen is not None
    child.kill()
    assert procfs.end(seen.identity, patience=0.0)
    assert not procfs.is_alive(seen.identity)
    child.returncode = -9


def test_a_process_that_ignores_the_request_is_forced() -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    seen = procfs.observe(child.pid)
    assert seen is not None
    assert procfs.end(seen.identity, patience=0.2)
    child.stdout.close()
    child.returncode = -9


def test_descendants_are_found_across_generations() -> None:
    def process(pid: int, parent: int) -> Process:
        return Process(Identity(pid, 1), parent, "S", ("x",))

    family = [process(10, 1), process(11, 10), process(12, 11), process(20, 1)]
    assert {found.identity.pid for found in procfs.descendants([Identity(10, 1)], family)} == {11, 12}


def test_start_wait_stop(tmp_path: Path, table: ProcessTable) -> None:
    listener = component(tmp_path, LISTEN.format(path=str(tmp_path / "socket")))
    table.start(listener, dict(os.environ))
    table.wait_ready(listener)
    record = table.alive()["worker"]
    assert procfs.is_alive(record.identity)
    table.stop("worker")
    assert not procfs.is_alive(record.identity)
    assert table.recorded() == {}


def test_a_process_that_dies_at_once_is_reported_with_its_last_output(tmp_path: Path, table: ProcessTable) -> None:
    dying = component(tmp_path, "import sys; print('fatal: no such device', file=sys.stderr); sys.exit(3)")
    table.start(dying, dict(os.environ))
    with pytest.raises(NotReady, match=r"worker ended right after its start.*\n.*no such device"):
        table.wait_ready(dying)


def test_a_process_that_never_answers_is_reported_with_the_time_waited(tmp_path: Path, table: ProcessTable) -> None:
    silent = component(tmp_path, "import time; time.sleep(60)", patience=0.3)
    table.start(silent, dict(os.environ))
    with pytest.raises(NotReady, match="not ready after 0 s"):
        table.wait_ready(silent)


def test_a_record_of_another_boot_is_never_acted_on(tmp_path: Path, table: ProcessTable) -> None:
    mine = procfs.observe(os.getpid())
    assert mine is not None
    (tmp_path / "records").mkdir()
    record = Record("worker", mine.identity.pid, mine.identity.started, boot="another")
    (tmp_path / "records/worker.json").write_text(record.to_json())
    assert table.recorded() == {"worker": record}
    assert table.alive() == {}
    table.stop("worker")  # would end this test if it were acted on


def test_a_failed_program_is_reported_with_its_output_and_its_log(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"exit code 3.*\nfatal: broken") as failure:
        run(["sh", "-c", "echo fatal: broken >&2; exit 3"])
    assert failure.value.returncode == 3
    log = tmp_path / "logs/x.log"
    with pytest.raises(CommandFailed, match=re.escape(str(log))):
        run(["sh", "-c", "echo cannot >&2; exit 1"], log=log)
    assert log.read_text().endswith("cannot\n")
    with pytest.raises(CommandFailed, match="is not installed"):
        run(["no-such-program-here"])
    with pytest.raises(CommandFailed, match="no end after"):
        run(["sleep", "5"], timeout=0.05)


@pytest.mark.parametrize("text", ["", "{", '{"name": "x"}', "[]", '{"name":"x","pid":"no","started":1,"boot":"b"}'])
def test_a_record_cut_off_by_a_crash_is_no_record(text: str) -> None:
    assert Record.from_json(text) is None


@pytest.mark.parametrize(
    ("source", "sink", "cause"),
    [
        (["sh", "-c", "echo source refused >&2; exit 3"], ["cat"], "exit code 3:\nsource refused"),
        (["yes"], ["sh", "-c", "echo sink refused >&2; exit 4"], "exit code 4:\nsink refused"),
        (["yes"], ["no-such-program"], "exit code 127"),
        (["no-such-program"], ["cat"], "exit code 127"),
    ],
)
def test_a_pipe_reports_the_program_that_failed_and_leaves_no_process(
    source: list[str], sink: list[str], cause: str
) -> None:
    pipe(["echo", "read me"], ["grep", "-q", "read me"])
    with pytest.raises(CommandFailed, match=cause):
        pipe(source, sink)
