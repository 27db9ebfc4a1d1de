"""The termination message of a driver, which `kubectl describe` prints."""

from pathlib import Path

import pytest

from eventconsumer_spark.attempt import shutdown


def test_a_termination_message_controls_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "TERMINATION_LOG", log := tmp_path / "termination-log")
    log.touch()
    shutdown.leave_message("file \x1b[2J\u202e\ud800.parquet: " + "x" * 5000)
    assert log.read_text().startswith("file \ufffd[2J\ufffd\ufffd.parquet: xxx") and len(log.read_text()) == 4096
