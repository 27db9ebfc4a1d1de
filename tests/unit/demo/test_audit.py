"""The demo's last step: a host's audit is shown, and whatever is not clean fails the demo."""

from pathlib import Path

import pytest

from eventconsumer_demo import run
from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError


def cluster(folder: Path, script: str) -> Cluster:
    """A cluster whose kubectl is this script."""
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Cluster("demo", path=str(folder))


def test_the_audit_runs_in_a_host_pod_and_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run.audit(cluster(tmp_path, 'echo "$@"; echo "Clean: each event stands in exactly one file"'))
    asked, verdict = printed.splitlines()
    assert asked == "--namespace demo exec orders-host-0 -- eventconsumer audit --deep --hub"
    assert verdict.startswith("Clean: ")
    run.show_audit(printed)
    assert "Clean: each event stands in exactly one file" in capsys.readouterr().out


@pytest.mark.parametrize("code", [1, 2, 3])
def test_an_audit_that_is_not_clean_fails_the_demo(tmp_path: Path, code: int) -> None:
    with pytest.raises(DemoError) as failure:
        run.audit(cluster(tmp_path, f"echo VIOLATION: SlotMissing; exit {code}"))
    assert "VIOLATION: SlotMissing" in failure.value.detail
    assert "eventconsumer audit --deep --hub" in failure.value.hint
