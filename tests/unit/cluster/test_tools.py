"""Tool modules: versions, cache names, Go itself; packages, progress and logs."""

import io
import re
from pathlib import Path

import pytest
from rich.text import Text

from eventconsumer_api.shared.console import Console
from local_cluster.gotoolchain import parse_version
from local_cluster.layout import TOOL_MODULES
from local_cluster.mirror import mirror_of
from local_cluster.packages import missing
from local_cluster.progress import Progress
from local_cluster.shell import telling_lines
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


def test_kubernetes_and_its_staging_modules_have_the_pinned_version() -> None:
    go_mod = (TOOL_MODULES / "kubernetes/go.mod").read_text()
    version = module_version(go_mod, "k8s.io/kubernetes")
    flags = link_flags(MODULES[0], go_mod)
    assert f"gitVersion={version} " in flags
    assert re.search(r"gitMinor=\d+ ", flags)
    replaced = re.findall(r"^\t(k8s\.io/\S+) => \1 (\S+)$", go_mod, re.MULTILINE)
    assert len(replaced) > 20
    assert {staged for _, staged in replaced} == {re.sub(r"^v1", "v0", version)}
    with pytest.raises(ValueError, match=r"k8s\.io/nothing"):
        module_version("module x\n", "k8s.io/nothing")


@pytest.mark.parametrize("module", [GITOPS, KUBEFLOW], ids=lambda module: module.name)
def test_tools_of_tests_are_no_part_of_the_cluster(module: ToolModule, tmp_path: Path) -> None:
    cluster, extra = Tools(TOOL_MODULES, tmp_path), Tools(TOOL_MODULES, tmp_path, (module,))
    assert module.name not in cluster.fingerprint()
    assert extra.missing() == [module]
    assert len({extra.path(binary).parent for binary in module.binaries}) == 1
    for binary in module.binaries:
        with pytest.raises(KeyError):
            cluster.path(binary)


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


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_numbers_steps_that_overlap_and_marks_failures(terminal: bool) -> None:
    output = io.StringIO()
    progress = Progress(3, Console(file=output, width=200, force_terminal=terminal))
    with progress.step("one"):
        progress.note("a detail [not markup]")
        with progress.step("other"):  # a terminal shows one spinner for both
            pass
    with pytest.raises(ZeroDivisionError), progress.step("last"):
        raise ZeroDivisionError
    shown = Text.from_ansi(output.getvalue()).plain
    places = [
        re.search(pattern, shown)
        for pattern in (
            r"a detail \[not markup\]",
            r"\[2/3\] other +\d",
            r"\[1/3\] one +\d",
            r"\[3/3\] last +failed after \d",
        )
    ]
    found = [place.start() for place in places if place]
    assert len(found) == 4 and found == sorted(found), shown
