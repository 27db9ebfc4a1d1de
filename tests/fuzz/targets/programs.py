"""Configuration, connection strings, and what pods say."""

import json
from pathlib import Path
from tempfile import NamedTemporaryFile

from pydantic import ValidationError

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.endpoints import AZURE_HUB_SUFFIXES, AZURE_STORAGE_SUFFIXES
from eventconsumer_api.wire.batch import BatchJob
from eventconsumer_api.wire.fleet import FleetMessage
from eventconsumer_api.wire.host_config import BlobContainer, Credential, HostConfig, HubConfig
from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_api.wire.termination import BatchReplayTotals
from eventconsumer_cli import loglines
from eventconsumer_host.credentials import hub_access
from eventconsumer_operator.conditions.replaystatus import parse_totals
from eventconsumer_operator.conditions.status import make_status, wire
from eventconsumer_operator.plan import make_plan
from eventconsumer_storage.account import resolve_account
from tests.fuzz.targets.allow import allow, same
from tests.unit.operator.worlds import SETTINGS, observed


def documents(data: bytes) -> None:
    """Configuration of a host, job of a driver, message of the operator. Input: JSON; all parsers read it."""
    for model in (HostConfig, BatchJob, FleetMessage):
        found = allow(ValidationError, model.model_validate_json, data)
        if found is not None:
            same(found)


def reports(data: bytes) -> None:
    """A report of a host: the operator refuses it, or makes plan and status of it. Input: JSON."""
    report = allow(ValidationError, HostReport.model_validate_json, data)
    if report is None:
        return
    world = observed(reports={"orders-host-0": report})
    status = make_status(world, make_plan(world, SETTINGS), (), SETTINGS)
    json.dumps(wire(status), allow_nan=False).encode()


def lines(data: bytes) -> None:
    """A line of a pod's log, or its termination message. Input: the line."""
    line = loglines.parse("pod", data)
    assert line.partition is not None
    line.text()
    parse_totals(BatchReplayTotals, data.decode(errors="replace"))


def credentials(data: bytes) -> None:
    """A connection string in a Secret: refused with field, cause and remedy, or a host that is allowed. Input: text."""
    with NamedTemporaryFile(dir=_MEMORY) as file:
        file.write(data)
        file.flush()
        secret = Credential(field="spec.x", secret="s", key="k", connection_string_file=file.name)
        hub = allow(
            Blocked,
            hub_access,
            HubConfig(consumer_group="g", name="orders", credential=secret),
            False,
            AZURE_HUB_SUFFIXES,
        )
        account = allow(
            Blocked,
            lambda: resolve_account(
                BlobContainer(container="c", credential=secret),
                "spec.sink",
                allow_insecure=False,
                suffixes=AZURE_STORAGE_SUFFIXES,
            ),
        )
    if hub is not None:
        assert hub.namespace.rstrip(".").endswith(AZURE_HUB_SUFFIXES), hub.namespace
    if account is not None:
        assert account.endpoint.startswith("https://")


_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a file system in memory
