"""The end of a driver: its exit code after SIGTERM, and its termination message, which `kubectl describe` prints."""

from pathlib import Path

import pytest

from eventconsumer_api.wire.batch import BatchJob, ReprocessOf
from eventconsumer_spark.attempt import shutdown
from tests.unit.spark.test_batch import JOB


def of_reprocessing(last: int) -> BatchJob:
    """Batch 3 of reprocessing."""
    return JOB.model_copy(update={"reprocess": ReprocessOf(name="again", first=1, last=last)})


@pytest.mark.parametrize(
    ("job", "code"),
    [(None, 143), (JOB, 0), (of_reprocessing(last=3), 0), (of_reprocessing(last=4), 143)],
    ids=["before the first batch", "after a commit", "after reprocessing", "within reprocessing"],
)
def test_sigterm_without_a_batch_in_progress(job: BatchJob | None, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "_halt", lambda code: pytest.exit(f"code {code}"))
    ending = shutdown.Ending()
    if job:
        ending.committed(job)
        ending.let_go()
    with pytest.raises(pytest.exit.Exception, match=f"^code {code}$"):
        ending.terminated()


def test_a_termination_message_controls_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "TERMINATION_LOG", log := tmp_path / "termination-log")
    log.touch()
    shutdown.leave_message("file \x1b[2J\u202e\ud800.parquet: " + "x" * 5000)
    assert log.read_text().startswith("file \ufffd[2J\ufffd\ufffd.parquet: xxx") and len(log.read_text()) == 4096
