"""What receiving costs: CPU time of a client for each event, ours against the SDK's and a compiled one.

The compiled client is a small Go program on github.com/Azure/go-amqp (in go/); without a Go compiler its rows are left
out. Each client has one core, the emulator the other. A client attaches to one partition with 3,000 events of credit,
its clock starts, the hub lets go of its backlog, and the clock stops with the last event. All receive settled events
with three properties, and decode them whole. Over WebSockets each event is a message.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.hubs import await_readers, fill, held
from tests.bench.machine import CLIENT_CORE, emulator_at, on_core
from tests.bench.options import Options
from tests.bench.results import Row
from tests.support.servers import KEY, KEY_NAME, EmulatorProcess

SIZES = {"200b": (200, 300_000), "1k": (1000, 300_000), "16k": (16_000, 30_000)}  # bytes of a body, events
QUICK = 10  # times fewer events
SETTLE_SECONDS = 1.0  # behind the attach
GO = Path(__file__).parent / "go"


def rows(options: Options) -> list[Row]:
    """Receive events of three sizes with each client."""
    found = []
    with TemporaryDirectory() as name, emulator_at(Path(name)) as emulator:
        compiled = build(Path(name), options)
        for label, (size, most) in SIZES.items():
            hub = f"receive-{label}"
            count = fill(emulator, hub, size, most // (QUICK if options.quick else 1))
            python = [sys.executable, "-m", "tests.bench.receive_client"]
            given = [emulator.connection_string(hub), str(count)]
            commands = {
                "SDK": [*python, "sdk", *given],
                "ours": [*python, "amqp", *given],
                "ours by WebSocket": [*python, "websocket", *given],
            }
            if compiled:
                where = [f"-address=localhost:{emulator.port}", f"-key-name={KEY_NAME}", f"-key={KEY}"]
                commands["Go"] = [str(compiled), *where, f"-hub={hub}", f"-events={count}"]
            micros = {who: measure(command, emulator, hub) for who, command in commands.items()}
            for who, value in micros.items():
                options.say(f"{hub}, {who}: {value:.2f} us an event, {1e6 / value:,.0f} events per CPU s")
            found.append(Row(f"receive_{label}_vs_sdk", "CPU us per event", micros["ours"], micros["SDK"]))
            found.append(
                Row(
                    f"receive_{label}_websocket_vs_plain",
                    "CPU us per event",
                    micros["ours by WebSocket"],
                    micros["ours"],
                )
            )
            if compiled:
                found.append(Row(f"receive_{label}_vs_go", "CPU us per event", micros["ours"], micros["Go"]))
            emulator.admin.delete_hub(hub)
    return found


def build(scratch: Path, options: Options) -> Path | None:
    """Compile the Go client; None where that cannot be done here."""
    if not shutil.which("go"):
        options.say("There is no Go compiler here: the rows against the Go client are left out.")
        return None
    binary = scratch / "receive"
    command = ["go", "build", "-buildvcs=false", "-o", str(binary), "."]
    built = subprocess.run(command, cwd=GO, env=os.environ | {"GOWORK": "off"}, capture_output=True, check=False)
    if built.returncode:
        options.say(f"The Go client cannot be built, its rows are left out: {built.stderr.decode().strip()}")
        return None
    return binary


def measure(command: list[str], emulator: EmulatorProcess, hub: str) -> float:
    """CPU microseconds for each event of a client.

    Raises:
        RuntimeError: It failed.
    """
    with held(emulator, hub), on_core(CLIENT_CORE):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{command[0]} ended with {process.wait()} before it was attached")
        await_readers(emulator, hub, 1)
        time.sleep(SETTLE_SECONDS)
    output, _ = process.communicate(timeout=300)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    found = json.loads(output)
    return 1e6 * float(found["cpu"]) / int(found["events"])
