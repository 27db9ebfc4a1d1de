"""The demo's last step: a host's audit is shown, and an audit that is not clean fails the demo."""

import subprocess
from typing import Any

import pytest

from eventconsumer_demo import run
from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError

CLEAN = "Clean: each event is in exactly one file"


@pytest.mark.parametrize(("code", "printed"), [(0, f"1 file\n{CLEAN}\n"), (1, "VIOLATION: SlotMissing"), (3, "bad")])
def test_the_audit_runs_in_a_host_pod_and_fails_the_demo_where_it_is_not_clean(
    code: int, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def kubectl(command: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        assert " ".join(command) == ("kubectl --namespace demo exec orders-host-0 -- eventconsumer audit --deep --hub")
        return subprocess.CompletedProcess(command, code, printed, "")

    monkeypatch.setattr("eventconsumer_demo.cluster.subprocess.run", kubectl)
    if code:
        with pytest.raises(DemoError) as failure:
            run.audit(Cluster("demo"))
        assert printed in failure.value.detail
        assert "eventconsumer audit --deep --hub" in failure.value.hint
    else:
        run.show_audit(run.audit(Cluster("demo")))
        assert capsys.readouterr().out == printed
