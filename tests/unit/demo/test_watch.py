from eventconsumer_demo.watch import View

DONE = {
    "hosts": {"desired": 4, "ready": 4},
    "partitions": {"total": 8, "owned": 8, "unowned": 0},
    "lag": {"events": 0, "seconds": 0},
    "drained": {"files": 24, "events": 100, "bytes": 1},
    "table": {"events": 100},
    "spark": {"processedFiles": 24, "lastApplication": "orders-b2"},
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "SparkHealthy", "status": "True", "reason": "Idle"}],
}


def test_an_empty_status_is_shown_and_not_finished() -> None:
    view = View.of({})
    assert not view.finished(100)
    assert "?" in view.line(0)


def test_finished_needs_all_events_no_lag_and_all_files_processed() -> None:
    assert View.of(DONE).finished(100)
    assert not View.of(DONE).finished(101)
    assert not View.of(DONE | {"lag": {"events": 1}}).finished(100)
    assert not View.of(DONE | {"lag": {}}).finished(100)
    assert not View.of(DONE | {"table": {"events": 99}}).finished(100)
    assert not View.of(DONE | {"spark": {"processedFiles": 23}}).finished(100)
