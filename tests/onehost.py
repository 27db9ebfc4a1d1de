"""`python -m tests.onehost`: an emulator with an Event Hub, Azurite, and the configuration of a host, for a debugger.

Sends events until Ctrl-C. The host runs apart, in a terminal or an IDE: the command is printed.
"""

import argparse
import json
import shutil
import signal
import time
from pathlib import Path

from tests.integration.processor.hosts import Consumer
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

FOLDER = Path("build/onehost")
HUB = "orders"


def main() -> None:
    """Start, send, and stop at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.onehost", description=__doc__)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rate", type=int, default=10, help="events a second (default %(default)s)")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    emulator, azurite = EmulatorProcess(FOLDER), AzuriteProcess(FOLDER / "azurite.log")
    try:
        azurite.start()
        emulator.start()
        emulator.admin.create_hub(HUB, partitions=options.partitions)
        consumer = Consumer(FOLDER.resolve(), emulator, azurite, HUB)
        consumer.config["leases"]["durationSeconds"] = 60  # the longest pause at a breakpoint, nearly
        file = FOLDER / "host.json"
        file.write_text(json.dumps(consumer.config, indent=2))
        print(
            f"Event Hub {HUB} with {options.partitions} partitions; files in container {consumer.drained}, leases in "
            f"{consumer.leases} of {azurite.url}\nstart a host:\n"
            f"  EVENTCONSUMER_CONFIG={file} EVENTCONSUMER_PORT=8000 POD_NAME=orders-host-0 "
            ".venv/bin/python -m eventconsumer_tools",
            flush=True,
        )
        sent = 0
        while True:
            consumer.publish(options.rate, start=sent)
            sent += options.rate
            time.sleep(1)
    except KeyboardInterrupt:
        pass
    finally:
        emulator.close()
        azurite.close()


if __name__ == "__main__":
    main()
