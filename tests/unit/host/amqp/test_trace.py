"""The trace of frames: both directions in their order, and neither events nor tokens."""

import pytest
from structlog.testing import capture_logs

from eventconsumer_host.amqp import trace
from eventhubs_emulator.messages import encode_event
from tests.support.fakes.virtual import virtual
from tests.unit.host.amqp.emulated import Emulated

SECRET = "a-body-that-no-log-shows"


async def traced(monkeypatch: pytest.MonkeyPatch, value: str) -> list[str]:
    """What is logged while an event is received."""
    monkeypatch.setenv(trace.VARIABLE, value)
    service = Emulated(monkeypatch)
    service.broker.create_hub("orders", 1)
    service.broker.hub("orders").partition("0").append([encode_event(SECRET.encode())], service.broker.clock())
    with capture_logs() as entries:
        hub = service.hub()
        source = await hub.open("0", -1, 1, 100)
        assert len(await source.receive(100, 5)) == 1
        await source.close()
        await hub.close()
    return [str(entry["event"]) for entry in entries]


@virtual
async def test_frames_are_logged_in_their_order_without_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = await traced(monkeypatch, "1")
    assert lines[:4] == [
        "-> header AMQP 3 1.0.0",
        "<- header AMQP 3 1.0.0",
        "<- sasl-mechanisms(sasl-server-mechanisms=[MSSBCBS, PLAIN, ANONYMOUS, EXTERNAL])",
        "-> sasl-init(mechanism=ANONYMOUS)",
    ]
    names = [line.partition("(")[0] for line in lines]
    for name in ("open", "begin", "attach", "flow", "transfer", "detach", "close"):
        assert {f"-> {name}", f"<- {name}"} <= set(names), name
    assert any("source=[amqps://" in line and "Partitions/0" in line for line in lines)
    assert not [line for line in lines if SECRET in line or "SharedAccessSignature" in line]


@virtual
async def test_without_the_variable_no_frame_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [line for line in await traced(monkeypatch, "") if line.startswith(("->", "<-"))]
