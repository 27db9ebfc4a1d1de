"""A sender of events, whose bodies reach the messages of a handler, and with them people's terminals."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventconsumer_api.shared.terminal import clean_line
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.integration.processor.conftest import MakeConsumer, consumer  # noqa: F401 - a fixture
from tests.integration.processor.hosts import Consumer
from tests.support.appfolder import app_folder

# It clears the screen, sets the title of the terminal, reverses the order of reading, and begins a line of its own.
BODY = "\x1b[2J\x1b]0;owned\x07\u202etxt.exe\nReady: True   all is well"
HANDLER = """
class Repeating:
    def process_events(self, context, batch):
        for event in batch:
            raise ValueError(f"no order: {event.body.decode()}")
"""
TOOLS = (("list",), ("show", "--partition", "0", "--sequence-number", "0"))


def control_the_terminal(orders: Consumer, config: Path) -> Outcome:
    """Send an event that the handler repeats in its error; look at all that people read about it."""
    orders.emulator.admin.put_event(orders.hub, "0", BODY.encode())
    host = orders.host()
    letters = host.problem("DeadLetters")
    program = [sys.executable, "-m", "eventconsumer_tools", "deadletters"]
    seen = {"the problem of the host": letters.message, "the log of the host": host.log.replace("\n", " ")}
    for words in TOOLS:
        done = subprocess.run(
            [*program, *words, "--config", str(config)], capture_output=True, text=True, check=True, env=os.environ
        )
        seen[f"deadletters {words[0]}"] = done.stdout + done.stderr
    assert any("no order" in text for text in seen.values()), seen
    gained = [place for place, text in seen.items() if any(each in text for each in "\x1b\x07\u202e")]
    gained += [place for place, text in seen.items() if any(line.startswith("Ready: ") for line in text.splitlines())]
    return Gained(f"the terminal by {', '.join(gained)}") if gained else Refused("the guard of the terminal")


def test_a_body_that_a_handler_repeats_controls_no_terminal(
    consumer: MakeConsumer,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "repeating.py").write_text(HANDLER)
    app = app_folder(tmp_path / "app", tmp_path / "repeating.py")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(app), os.environ.get("PYTHONPATH")))))
    processing = {
        "maxBatchSize": 20,
        "prefetchCount": 300,
        "maxWaitSeconds": 5,
        "handlerAttempts": 1,
        "handler": "repeating:Repeating",
    }
    orders = consumer(partitions=1, processing=processing)
    outcome = control_the_terminal(orders, tmp_path / "orders-host-0.json")
    assert isinstance(outcome, Refused), outcome
    # The control: the same error printed by a program without the guard.
    with orders.container(orders.drained) as container:
        (name,) = container.list_blob_names(name_starts_with="shop/orders/_deadletters/")
        error = json.loads(container.download_blob(name).readall())["error"]["message"]
    plain = subprocess.run([sys.executable, "-c", f"print({error!r})"], capture_output=True, text=True, check=True)
    assert "\x1b[2J" in plain.stdout and clean_line(plain.stdout) != plain.stdout
