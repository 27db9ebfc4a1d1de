"""Fixtures that every suite may use: real servers, started here and stopped by pid."""

import os
from collections.abc import Generator, Iterator
from typing import TypeVar

import pytest
import structlog
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.azurite import AzuriteProcess
from tests.support.durations import Measure
from tests.support.peer.process import PeerProcess
from tests.support.servers import EmulatorProcess

# Property tests are judged by what they find, not by how busy the machine is. The default profile draws the same
# examples in each run, so a commit gives the same result everywhere; HYPOTHESIS_PROFILE=long explores. An input that it
# finds becomes an @example of the test.
DRAWN_ALIKE = {"deadline": None, "derandomize": True, "database": None}
settings.register_profile("default", max_examples=20, stateful_step_count=25, **DRAWN_ALIKE)
settings.register_profile("check", max_examples=5, stateful_step_count=10, **DRAWN_ALIKE)
settings.register_profile("long", deadline=None, max_examples=300, stateful_step_count=50, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of `make test-long`, and measure the tests."""
    config.addinivalue_line("markers", "long: a test of `make test-long`; `make test` leaves it out")
    config.addinivalue_line("markers", "slow: a unit test of `make test`; `make check` leaves it out")
    config.pluginmanager.register(Measure(), "durations")


ALLOWED_SKIPS = {
    # the same test runs against the fake, in virtual time
    "half a minute of real time",
    "two minutes of real time",
    "minutes of real time",
    "it waits for the end of a lease, which takes real time there",
    "faults are injected into the fake",
    # limits of a machine, which no package changes
    "this machine forbids core dumps",
    "the local cluster needs root, too",
    "a cluster runs on this machine; these tests would end it (`make demo-down` first)",
    "the pods' processes are not on this machine",
    # limits of a copy of these sources; a clone with its history runs the tests
    "these sources are no git repository, so they lack earlier releases",
    "this clone is shallow and lacks earlier releases: run git fetch --unshallow",
    # no registry that `make test` uses has it; the test beside it verifies the same files with OpenSSL
    "cosign is not installed",
}
"""Reasons for which a test may be skipped. Any other skip is a failure, so that a missing program hides no test."""


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _no_skip(report: Report) -> Report:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason not in ALLOWED_SKIPS:
            report.outcome = "failed"
            report.longrepr = f"skipped: {reason}: install what is missing, or add the reason to ALLOWED_SKIPS"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped for another reason has failed."""
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Likewise a module."""
    return _no_skip((yield))


TOGETHER = ("tests/e2e", "tests/faults", "tests/outsiders")
ONE_SESSION = (
    "audit_table",
    "avro",
    "examples",
    "formats",
    "identity",
    "json_columns",
    "output",
    "pods",
    "properties",
    "table",
)
"""Files of `tests/integration/spark` whose tests share a Spark session, which has a JVM of its own."""


class _ByFixtures(LoadScopeScheduling):
    """Tests that share fixtures run in one process: those of a file, and all of a folder that shares a stage.

    Not `--dist loadgroup`: pytest-xdist 3.8 writes groups into node ids, which pytest 9 ignores.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in {f"tests/integration/spark/test_{name}.py" for name in ONE_SESSION}:
            return "Spark's session"
        return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """The scheduler for `--dist loadscope`."""
    return _ByFixtures(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """For tests of programs that silence logs for the whole process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteProcess]:
    """One Azurite for the session; take a fresh `azurite.container()` in each test."""
    server = AzuriteProcess(tmp_path_factory.mktemp("azurite") / "azurite.log")
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def emulator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    """One emulator for the session; take `emulator`."""
    server = EmulatorProcess(tmp_path_factory.mktemp("emulator"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def emulator(emulator_process: EmulatorProcess) -> Iterator[EmulatorProcess]:
    """An empty Event Hubs namespace for each test; make hubs with `emulator.admin`."""
    yield emulator_process
    emulator_process.empty()


@pytest.fixture(scope="session")
def peer_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerProcess]:
    """One broker on Proton's engine for the session; take `peer`."""
    server = PeerProcess(tmp_path_factory.mktemp("peer"))
    yield server
    server.close()


@pytest.fixture
def peer(peer_process: PeerProcess) -> Iterator[PeerProcess]:
    """A broker of another stack without hubs, for each test; see `tests.support.peer`."""
    yield peer_process
    peer_process.call("reset")
