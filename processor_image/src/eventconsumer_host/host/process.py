"""The process of a host or a probe: configuration, logs and signals.

Environment:

- EVENTCONSUMER_CONFIG: the HostConfig file; the operator's public key is in the same folder.
- EVENTCONSUMER_CONFIG_JSON: the content of the HostConfig, instead of a file.
- POD_NAME and POD_UID: the identity of this host.
- EVENTCONSUMER_PORT: the HTTP port; 0: any free port, which is logged.

Exit codes: 0 after an orderly stop, 1 if a replay was stopped before its end, 2 if the configuration cannot be read.
"""

import asyncio
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any
from uuid import uuid4

import structlog
from pydantic import ValidationError

from eventconsumer_api.kube import labels
from eventconsumer_api.shared import logs
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import owner_id
from eventconsumer_host.errors import PortTaken
from eventconsumer_host.host.replay import Totals

TERMINATION_LOG = Path("/dev/termination-log")


def main() -> int:
    """Run a host until SIGTERM or SIGINT; the exit code."""
    from eventconsumer_host.host.allocator import return_freed_memory  # loads Arrow, which the probe does not need

    return_freed_memory()
    return _main(_run)


def probe() -> int:
    """Run a probe until SIGTERM or SIGINT; the exit code."""
    return _main(_run_probe)


def _main(run: Callable[[HostConfig, str, int, Path], Coroutine[Any, Any, Totals | None]]) -> int:
    configure_logging()
    log = structlog.get_logger("eventconsumer_host")
    path = Path(os.environ.get("EVENTCONSUMER_CONFIG", labels.CONFIG_FILE))
    try:
        text = os.environ.get(labels.CONFIG_ENV) or path.read_text(encoding="utf-8")
        config = HostConfig.model_validate_json(text)
        port = int(os.environ.get("EVENTCONSUMER_PORT", labels.HOST_PORT))
    except OSError as error:
        log.error(
            "the configuration cannot be read: set EVENTCONSUMER_CONFIG to its file", path=str(path), error=str(error)
        )
        return 2
    except ValidationError as error:
        fields = [".".join(map(str, problem["loc"])) + ": " + problem["msg"] for problem in error.errors()]
        log.error(
            "the configuration is invalid for this version of the host: run operator and hosts at the same version",
            path=str(path),
            fields=fields,
        )
        return 2
    except ValueError:
        log.error(
            "EVENTCONSUMER_PORT is not a number: set it to a port, or remove it", value=os.environ["EVENTCONSUMER_PORT"]
        )
        return 2
    name = os.environ.get("POD_NAME") or socket.gethostname()
    owner = owner_id(config.resource.path, name, os.environ.get("POD_UID") or str(uuid4()))
    configure_logging(namespace=config.resource.namespace, name=config.resource.name, host=name)
    try:
        replayed = asyncio.run(run(config, owner, port, path.with_name(PurePath(labels.FLEET_KEY_FILE).name)))
    except PortTaken as error:
        log.error("cannot listen on the port: set EVENTCONSUMER_PORT to a free port", port=port, error=str(error))
        return 2
    log.info("stopped")
    if config.replay is None:
        return 0
    return _replayed(replayed)


def _replayed(found: Totals | None) -> int:
    """Write the totals of a replay to the termination log, where the operator reads them."""
    if found is None:
        return 1
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(json.dumps(asdict(found)), encoding="utf-8")
    return 0


async def _run(config: HostConfig, owner: str, port: int, fleet_key: Path) -> Totals | None:
    from eventconsumer_host.host.host import Host

    host = Host(config, owner, fleet_key=fleet_key)
    _stop_by_signal(host.request_stop)
    await host.run(port)
    return host.replayed


async def _run_probe(config: HostConfig, owner: str, port: int, _: Path) -> None:
    from eventconsumer_host.host.probe import Probe

    probe = Probe(config, owner)
    _stop_by_signal(probe.request_stop)
    await probe.run(port)


def _stop_by_signal(request_stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, request_stop)


def configure_logging(**context: str) -> None:
    """Configure the log format, and silence pyamqp's report of each lost link: the pump logs it."""
    logs.configure("INFO", stream=None, **context)
    logging.getLogger("azure").setLevel(logging.ERROR)
