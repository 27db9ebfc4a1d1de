"""The command: ``python -m eventhubs_emulator``.

Prints one JSON line with both ports when it listens, then one line for each event on stderr. Exit code: 0 after SIGTERM
or SIGINT, 2 with a one-line error if an option is invalid.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from .admin import Admin
from .broker import Broker
from .errors import EmulatorError, UsageError
from .http import JsonServer
from .hub import Retention
from .server import AmqpServer
from .tokens import Policy


def _pairs(option: str, values: Sequence[str], form: str) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        name, found, rest = value.partition("=")
        if not found or not name or not rest:
            raise UsageError(f"{option} {value!r} is not of the form {form}")
        pairs.append((name, rest))
    return pairs


def _policies(values: Sequence[str]) -> list[Policy]:
    policies = []
    for name, rest in _pairs("--policy", values, "Name=Key:Listen,Send"):
        # The key may contain colons and equals signs; the rights cannot.
        key, found, rights = rest.rpartition(":")
        if not found:
            raise UsageError(f"--policy {name}=...: the rights are missing; the form is Name=Key:Listen,Send")
        policies.append(Policy.of(name, key, rights.split(",")))
    return policies


def build_broker(options: argparse.Namespace) -> Broker:
    """The namespace that the options describe.

    Raises:
        UsageError: an option cannot be used.
    """
    retention = Retention(
        max_events=options.retention_events,
        max_bytes=options.retention_mib * 1024 * 1024,
        max_age_ms=int(options.retention_seconds * 1000),
    )
    broker = Broker(retention, _policies(options.policy), options.allow_jwt)
    groups = {
        hub.lower(): names.split(",") for hub, names in _pairs("--consumer-group", options.consumer_group, "hub=a,b")
    }
    try:
        for name, partitions in _pairs("--hub", options.hub, "name=partitions"):
            if not partitions.isascii() or not partitions.isdecimal():
                raise UsageError(f"--hub {name}={partitions}: {partitions!r} is not a number of partitions")
            broker.create_hub(name, int(partitions), groups.pop(name.lower(), ()))
    except EmulatorError as error:
        raise UsageError(f"--hub: {error}") from None
    if groups:
        raise UsageError(f"--consumer-group names hub {next(iter(groups))!r}, which no --hub creates")
    return broker


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UsageError("--tls-cert and --tls-key must be used together: set both for TLS, none for plain TCP")
    if not options.tls_cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--tls-cert {options.tls_cert}: {error}; use a PEM certificate and its key") from None
    return context


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="eventhubs-emulator", description="A small Azure Event Hubs on AMQP 1.0.")
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    add("--port", type=int, default=5672, help="AMQP port, 0 selects a free port (default %(default)s)")
    add("--admin-port", type=int, default=8081, help="admin port, 0 selects a free port (default %(default)s)")
    add("--port-file", type=Path, help="write the ports to this file as JSON when the emulator listens")
    add("--hub", action="append", default=[], metavar="NAME=PARTITIONS", help="create a hub; may be repeated")
    add("--consumer-group", action="append", default=[], metavar="HUB=A,B", help="consumer groups beside $Default")
    add(
        "--policy",
        action="append",
        default=[],
        metavar="NAME=KEY:RIGHTS",
        help="shared access policy; default: RootManageSharedAccessKey=SAS_KEY_VALUE:Manage",
    )
    add("--allow-jwt", action="store_true", help="accept bearer tokens, without verifying them")
    add("--tls-cert", help="PEM certificate; enables TLS")
    add("--tls-key", help="PEM key of the certificate")
    add("--retention-events", type=int, default=1_000_000, help="events a partition keeps (default %(default)s)")
    add("--retention-mib", type=int, default=128, help="MiB of memory a partition keeps (default %(default)s)")
    add("--retention-seconds", type=float, default=86_400, help="seconds an event is kept (default %(default)s)")
    add("--idle-timeout", type=float, default=240, help="seconds until a silent client is disconnected (%(default)s)")
    add("--max-connections", type=int, default=1000, help="clients at a time (default %(default)s)")
    add("--quiet", action="store_true", help="log warnings only")
    return parser


async def serve(options: argparse.Namespace, broker: Broker, tls: ssl.SSLContext | None) -> None:
    """Serves until SIGTERM or SIGINT.

    Raises:
        UsageError: a port is in use, or the port file cannot be written.
    """
    amqp = AmqpServer(broker, int(options.idle_timeout * 1000), options.max_connections)
    admin = JsonServer(Admin(broker))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        try:
            port = await amqp.start(options.host, options.port, tls)
            admin_port = await admin.start(options.host, options.admin_port)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {options.host}: {error}; choose another --host, --port or --admin-port"
            ) from None
        ports = json.dumps({"host": options.host, "port": port, "admin_port": admin_port, "tls": tls is not None})
        print(ports, flush=True)
        if options.port_file:
            _publish(options.port_file, ports)
        await stop.wait()
    finally:
        await admin.stop()
        await amqp.stop()


def _publish(path: Path, text: str) -> None:
    """Writes the file atomically, so that no reader sees an incomplete file."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text + "\n")
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"--port-file {path} cannot be written: {error.strerror}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    level = logging.WARNING if options.quiet else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        broker, tls = build_broker(options), _tls(options)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(options, broker, tls))
    except UsageError as error:
        print(f"eventhubs-emulator: {error}", file=sys.stderr)
        return 2
    return 0
