"""Tool modules: versions, cache names, Go itself; and what is said when a program fails."""

import io
import re
import threading
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from local_cluster.errors import CommandFailed
from local_cluster.gotoolchain import parse_version
from local_cluster.layout import TOOL_MODULES
from local_cluster.mirror import mirror_of
from local_cluster.packages import missing
from local_cluster.progress import Progress
from local_cluster.shell import run, telling_lines
from local_cluster.tools import GITOPS, KUBEFLOW, MODULES, ToolModule, Tools, link_flags, module_digest, module_version


def test_a_changed_pin_or_flag_is_another_folder(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "README").write_text("one")
    first = module_digest(tmp_path, "-s")
    (tmp_path / "README").write_text("two")
    assert module_digest(tmp_path, "-s") == first
    assert module_digest(tmp_path, "-w") != first
    (tmp_path / "go.sum").write_text("x v1 h1:=\n")
    assert module_digest(tmp_path, "-s") != first


def test_kubernetes_reports_the_version_it_is_pinned_to() -> None:
    go_mod = (TOOL_MODULES / "kubernetes/go.mod").read_text()
    version = module_version(go_mod, "k8s.io/kubernetes")
    flags = link_flags(MODULES[0], go_mod)
    assert f"gitVersion={version} " in flags
    assert re.search(r"gitMinor=\d+ ", flags)


def test_staging_modules_follow_the_version_of_kubernetes() -> None:
    go_mod = (TOOL_MODULES / "kubernetes/go.mod").read_text()
    expected = re.sub(r"^v1", "v0", module_version(go_mod, "k8s.io/kubernetes"))
    replaced = re.findall(r"^\t(k8s\.io/\S+) => \1 (\S+)$", go_mod, re.MULTILINE)
    assert len(replaced) > 20
    assert {version for _, version in replaced} == {expected}


@pytest.mark.parametrize("module", [GITOPS, KUBEFLOW], ids=lambda module: module.name)
def test_what_only_tests_need_is_no_part_of_the_cluster(module: ToolModule, tmp_path: Path) -> None:
    cluster, extra = Tools(TOOL_MODULES, tmp_path), Tools(TOOL_MODULES, tmp_path, (module,))
    assert module.name not in cluster.fingerprint()
    assert extra.missing() == [module]
    assert len({extra.path(binary).parent for binary in module.binaries}) == 1
    for binary in module.binaries:
        with pytest.raises(KeyError):
            cluster.path(binary)


def test_an_unpinned_module_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"k8s\.io/nothing"):
        module_version("module x\n", "k8s.io/nothing")


def test_every_binary_has_one_place(tmp_path: Path) -> None:
    tools = Tools(TOOL_MODULES, tmp_path)
    names = [name for module in MODULES for name in module.binaries]
    assert len(names) == len(set(names))
    assert {tools.path(name).name for name in names} == set(names)
    assert tools.missing() == list(MODULES)
    with pytest.raises(KeyError):
        tools.path("docker")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.25.3 linux/amd64", (1, 25)),
        ("go version go1.9 linux/amd64", (1, 9)),
        ("bash: go: not found", (0, 0)),
    ],
)
def test_go_versions_compare_as_numbers(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("sources", "mirror"),
    [
        ("deb http://mirror.example/debian bookworm main\n", "http://mirror.example/debian"),
        ("Types: deb\nURIs: https://mirror.example/debian/\nSuites: bookworm\n", "https://mirror.example/debian"),
        ("deb [signed-by=/k] https://mirror.example/debian bookworm main", "https://mirror.example/debian"),
        ("URIs: http://mirror.example/debian-security\n", None),
        ("deb https://packages.example/apt stable main\n# deb http://old.example/debian x main\n", None),
    ],
)
def test_the_mirror_is_debians_own_line(sources: str, mirror: str | None) -> None:
    assert mirror_of(sources) == mirror


def test_only_missing_packages_are_named() -> None:
    assert missing({"a": "ax", "b": "/b", "c": "cx"}, {"/b"}.__contains__) == ["a", "c"]


def test_the_lines_that_name_the_cause_are_shown() -> None:
    log = "I1121 hello\nE1121 09:00:00 bind: address already in use\nI1121 bye\n"
    assert telling_lines(log) == "E1121 09:00:00 bind: address already in use"
    assert telling_lines("one\ntwo\n\n") == "one\ntwo"


def test_a_failed_program_is_told_with_its_words_and_its_log(tmp_path: Path) -> None:
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


def test_progress_shows_steps_of_two_threads_on_a_terminal() -> None:
    output = io.StringIO()
    progress = Progress(2, Console(file=output, width=200, force_terminal=True))
    one_runs, other_ended = threading.Event(), threading.Event()

    def other() -> None:
        one_runs.wait()
        with progress.step("other"):
            pass
        other_ended.set()

    thread = threading.Thread(target=other)
    thread.start()
    with progress.step("one"):
        one_runs.set()
        other_ended.wait()
    thread.join()
    shown = Text.from_ansi(output.getvalue()).plain
    assert shown.index("[2/2] other   0.0 s") < shown.index("[1/2] one   0.")


def test_progress_numbers_steps_and_tells_failures() -> None:
    output = io.StringIO()
    progress = Progress(2, Console(file=output, width=200))
    with progress.step("one"):
        progress.note("a detail [not markup]")
    with pytest.raises(ZeroDivisionError), progress.step("two"):
        raise ZeroDivisionError
    lines = output.getvalue().splitlines()
    assert lines[0].strip() == "a detail [not markup]"
    assert re.match(r"\[1/2\] one +\d", lines[1])
    assert re.match(r"\[2/2\] two +failed after \d", lines[2])
