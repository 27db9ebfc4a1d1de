"""The command `check`: checks from a host's pod whether it can reach and use the hub and the storage account.

The only write is one empty blob in an existing container, which is removed immediately: only a write proves the right
to write. A message of the form "cause: remedy" becomes detail and remedy.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.shared.console import Console
from eventconsumer_api.wire.host_config import BlobLocation, HostConfig, LeaseLocation, NoticesConfig
from eventconsumer_api.wire.identity import ChainRecord, LeaseRecord, chain_name
from eventconsumer_host import problems
from eventconsumer_host.configuration import parse_config, read_config
from eventconsumer_host.credentials import hub_access
from eventconsumer_host.errors import HubNotFound, LeasesAmbiguous, NoticeFailed, SourceError
from eventconsumer_host.handler.deadletter import LetterFolder
from eventconsumer_host.host.registration import hub_of
from eventconsumer_host.identity.records import (
    StoredRecord,
    belongs,
    leader_name,
    misfit,
    other_spellings,
    read_lease_record,
    with_case,
)
from eventconsumer_host.identity.segments import check_names, list_segments
from eventconsumer_host.lease.layouts import lease_names, lease_store
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.notice.endpoint import NoticeEndpoint
from eventconsumer_host.source.hub import Hub, HubInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.credential import place
from eventconsumer_storage.errors import NotFound, StorageError
from eventconsumer_storage.lease_time import boottime
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import Check, CheckReport
from eventconsumer_tools.inspect.leases import read_leases
from eventconsumer_tools.inspect.records import expected_lease_record, read_chain_record
from eventconsumer_tools.inspect.storage import (
    AccountFacts,
    account_facts,
    blob_store,
    opened_service,
    storage_time,
)
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, REFUSED, show, table_of, text

CHAIN, LEASES, ACCOUNT = "chain-identity", "checkpoint-identity", "checkpoint-account"
NOTICES, LETTERS = "notices-endpoint", "dead-letters"
LETTERS_LISTED = 5000  # one page of a listing
ADVICE = "learn.microsoft.com/azure/event-hubs/troubleshoot-checkpoint-store-issues"
REACH_SECONDS = 20.0  # timeout of one request
SKEW_SECONDS = 60.0  # tokens and signatures tolerate some minutes: this leaves time for a warning
_HUB_CHECKS = ("hub-reachable", "hub-exists", "hub-partitions", "consumer-group")


class Checks:
    """Collects checks in order."""

    def __init__(self) -> None:
        self._made: list[Check] = []

    def passed(self, name: str, detail: str) -> None:
        """Add a passed check."""
        self._made.append(Check(check=name, ok=True, detail=detail))

    def failed(self, name: str, detail: str, remedy: str) -> None:
        """Add a failed check."""
        self._made.append(Check(check=name, ok=False, detail=detail, remedy=remedy))

    def warned(self, name: str, detail: str, remedy: str) -> None:
        """Add a check that passed, with advice."""
        self._made.append(Check(check=name, ok=True, detail=detail, remedy=remedy))

    def skipped(self, name: str, why: str) -> None:
        """Add a skipped check."""
        self._made.append(Check(check=name, ok=None, detail=f"skipped: {why}"))

    def extend(self, other: "Checks") -> None:
        """Append the checks of another collection."""
        self._made += other._made

    def report(self) -> CheckReport:
        """All checks."""
        return CheckReport(ok=all(check.ok is not False for check in self._made), checks=list(self._made))


async def run(config: HostConfig) -> CheckReport:
    """Check everything that a host needs; all problems are in the report."""
    hub, leases, sink, clock = Checks(), Checks(), Checks(), Checks()
    info, _ = await asyncio.gather(
        check_hub(config, hub), check_container(config, problems.LEASES, config.leases.location, leases, clock)
    )
    await check_container(config, problems.SINK, config.sink, sink, None)
    await check_record(config, info, hub)
    await check_identity(config, info, hub)
    for part in (leases, sink, clock):
        hub.extend(part)
    if config.notices is not None:
        await check_notices(config.notices, hub)
    if config.processing.handler is not None:
        await _check_letters(config, hub)
    return hub.report()


async def check_hub(config: HostConfig, checks: Checks) -> HubInfo | None:
    """Check credential, address, name, partitions and consumer group; returns the hub's properties, None on failure."""
    try:
        access = hub_access(config.event_hub, config.allow_insecure_endpoints, config.hub_suffixes)
        hub = hub_of(config)
    except Blocked as error:
        _failed(checks, "hub-credential", error.problem.message)
        _skip(checks, _HUB_CHECKS, "hub-credential failed")
        return None
    credential = config.event_hub.credential
    how = "workload identity" if credential.client_id else f"key {credential.key} of Secret {credential.secret}"
    checks.passed("hub-credential", f"{how} exists, for {access.host}/{access.name}")
    try:
        return await _ask_hub(config, hub, checks)
    finally:
        await hub.close()


async def _ask_hub(config: HostConfig, hub: Hub, checks: Checks) -> HubInfo | None:
    try:
        async with asyncio.timeout(REACH_SECONDS):
            info = await hub.describe()
    except (SourceError, TimeoutError) as error:
        found = error if isinstance(error, SourceError) else SourceError(f"no answer within {REACH_SECONDS:.0f} s")
        message = problems.hub_problem(config.event_hub, found).message
        if isinstance(found, HubNotFound):
            checks.passed("hub-reachable", "the namespace responds")
            _failed(checks, "hub-exists", message)
            _skip(checks, _HUB_CHECKS[2:], "hub-exists failed")
        else:
            _failed(checks, "hub-reachable", message)
            _skip(checks, _HUB_CHECKS[1:], "hub-reachable failed")
        return None
    checks.passed("hub-reachable", f"{info.host or info.namespace} responds and accepts the credential")
    checks.passed("hub-exists", f"Event Hub {info.name}, created {info.created_at.isoformat(timespec='seconds')}")
    checks.passed("hub-partitions", f"{len(info.partition_ids)} partitions")
    group = config.event_hub.consumer_group
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await hub.check_consumer_group(info.partition_ids[0])
        checks.passed("consumer-group", f"consumer group {group} exists")
    except (SourceError, TimeoutError) as error:
        found = error if isinstance(error, SourceError) else SourceError(f"no answer within {REACH_SECONDS:.0f} s")
        _failed(checks, "consumer-group", problems.hub_problem(config.event_hub, found, group=True).message)
    return info


async def check_record(config: HostConfig, info: HubInfo | None, checks: Checks) -> None:
    """Whether existing files belong to a hub with these names."""
    if info is None:
        checks.skipped("hub-unchanged", "the hub did not respond")
        return
    try:
        async with opened_service(config, problems.SINK, config.sink) as service:
            found = await list_segments(blob_store(service, config.sink.container), config.sink.prefix)
    except EventConsumerError as error:
        checks.skipped("hub-unchanged", f"could not read the segments of the chain: {error}")
        return
    if not found:
        checks.passed("hub-unchanged", "no host has registered yet")
        return
    try:
        check_names(found[-1], info)
    except Blocked as error:
        _failed(checks, "hub-unchanged", error.problem.message)
        return
    if found[-1].hub.created_at == info.created_at:
        checks.passed("hub-unchanged", "the existing files belong to this hub")
    else:
        checks.passed(
            "hub-unchanged",
            "the Event Hub's creation time differs from that of the files' hub: hosts compare its events with the "
            "files before they continue",
        )


async def check_identity(config: HostConfig, info: HubInfo | None, checks: Checks) -> None:
    """Whether chain and leases belong to this consumer, or to no consumer."""
    names = [CHAIN, LEASES]
    try:
        async with AsyncExitStack() as stack:
            service = await stack.enter_async_context(opened_service(config, problems.SINK, config.sink))
            sink = blob_store(service, config.sink.container)
            found = await check_chain(config, sink, checks)
            names.remove(CHAIN)
            if info is None:
                checks.skipped(LEASES, "the hub did not respond")
                return
            location = config.leases.location
            service = await stack.enter_async_context(opened_service(config, problems.LEASES, location))
            leases = blob_store(service, location.container)
            hub = hub_of(config)
            stack.push_async_callback(hub.close)
            wanted = expected_lease_record(config, info, found.record.chain if found else "", sink.account)
            await check_leases(config, leases, wanted, checks, hub=hub, info=info)
    except EventConsumerError as error:
        _skip(checks, tuple(names), f"could not read the records: {error}")


async def check_chain(config: HostConfig, sink: BlobStore, checks: Checks) -> StoredRecord[ChainRecord] | None:
    """Whether `spec.sink` has no chain yet, or the chain of this resource; the record.

    Raises:
        StorageError: A request failed.
    """
    prefix, own = config.sink.prefix, config.resource
    where = f"{config.sink.container}/{prefix}"
    if outer := await _outer(sink, prefix):
        checks.failed(
            CHAIN,
            f"spec.sink.prefix {prefix} is inside {outer}, which is the prefix of another chain",
            f"set a spec.sink.prefix that does not begin with {outer}/",
        )
        return await read_chain_record(sink, prefix)
    found = await read_chain_record(sink, prefix)
    if found is None:
        checks.passed(CHAIN, f"no chain of files at {where} yet: the first host creates it")
    elif found.record.resource.path == own.path:
        checks.passed(CHAIN, f"the chain of files at {where} belongs to this EventConsumer: its hosts continue it")
    else:
        other = found.record.resource
        info = await sink.head(leader_name(prefix))
        runs = "its hosts run" if info is not None and info.leased else "it has no leading host"
        checks.failed(
            CHAIN,
            f"the chain of files at {where} belongs to EventConsumer {other.path} (uid {other.uid}), and {runs}",
            f"set another spec.sink.prefix; or, to move the files, suspend or delete {other.path} and run "
            f"kubectl eventconsumer adopt {own.name} -n {own.namespace}",
        )
    return found


async def check_leases(
    config: HostConfig, leases: BlobStore, wanted: LeaseRecord, checks: Checks, *, hub: Hub, info: HubInfo
) -> None:
    """Whether the folder of the leases is empty, belongs to this hub and chain, or has leases that fit the hub.

    Args:
        config: The consumer.
        leases: The lease container.
        wanted: The record that its hosts expect.
        checks: Receives the results.
        hub: Queried for the ends of partitions, if leases have no record.
        info: Its properties.

    Raises:
        SourceError: The hub did not respond.
        StorageError: A request failed.
    """
    store, container = lease_store(config, info, leases, boottime), config.leases.location.container
    folder = store.folder.rstrip("/")
    where = f"{container}/{folder}"
    group = config.event_hub.consumer_group
    found = await read_lease_record(leases, folder, group)
    others = await other_spellings(leases, folder, group) if found is None and with_case(config) else []
    if found is not None and with_case(config) and found.record.consumer_group != group:
        others = [found.record.consumer_group]
    if others and (found is None or belongs(found.record, wanted)):
        _failed(checks, LEASES, problems.group_in_another_case(container, folder, group, others).message)
        return
    if found is not None:
        if belongs(found.record, wanted):
            checks.passed(LEASES, f"the leases at {where} belong to this hub and this chain")
        else:
            _failed(checks, LEASES, problems.leases_in_use(container, folder, found.record, wanted).message)
        return
    try:
        there = await store.existing()
    except LeasesAmbiguous as error:
        _failed(checks, LEASES, problems.leases_ambiguous(container, error).message)
        return
    views = await read_leases(leases, config.leases.layout, lease_names(config, info))
    damaged = [view for _, view in sorted(views.items()) if view.damage]
    if not views:
        checks.passed(LEASES, f"no leases at {where} yet: the first host creates them")
    elif damaged:
        names = ", ".join(f"{view.blob} ({view.damage})" for view in damaged)
        checks.failed(
            LEASES,
            f"leases of another program at {where} cannot be read: {names}",
            "restore or correct these blobs; without one, hosts begin at spec.startingPosition, unless kubectl "
            f"eventconsumer checkpoint set {config.resource.name} -n {config.resource.namespace} sets another",
        )
    elif why := await misfit(config, there, hub, info, read=False):
        _failed(checks, LEASES, problems.leases_do_not_fit(container, folder, why).message)
    else:
        by_offset = ", ".join(sorted((lease.partition for lease in there if _only_offset(config, lease)), key=natural))
        more = f"; of partitions {by_offset} they find the sequence number by the offset" if by_offset else ""
        spelling = await store.spelling()
        spelled = f", whose names are spelled {spelling}," if spelling else ""
        text = f"{len(there)} leases of another program at {where}{spelled} fit the hub: hosts continue{more}"
        checks.passed(LEASES, text)


def _only_offset(config: HostConfig, lease: Lease) -> bool:
    return lease.checkpoint is not None and lease.checkpoint.needs_offset(config.leases.layout)


async def check_container(
    config: HostConfig, field: str, location: BlobLocation | LeaseLocation, checks: Checks, clock: Checks | None
) -> None:
    """Check credential, container and right to write; with `clock`, also this machine's clock.

    Args:
        config: The consumer.
        field: `problems.LEASES` or `problems.SINK`.
        location: The container.
        checks: Receives the results.
        clock: Receives the result for the clock.
    """
    part = "checkpoint" if field == problems.LEASES else "sink"
    credential, container, writable = f"{part}-credential", f"{part}-container", f"{part}-writable"
    async with AsyncExitStack() as stack:
        try:
            service = await stack.enter_async_context(opened_service(config, field, location))
        except Blocked as error:
            _failed(checks, credential, error.problem.message)
            _skip(checks, (container, writable), f"{credential} failed")
            if clock:
                clock.skipped("clock", f"{credential} failed")
            return
        secret = location.credential
        how = "workload identity" if secret.client_id else f"key {secret.key} of Secret {secret.secret}"
        checks.passed(credential, f"{how} exists, for {service.primary_hostname}")
        try:
            async with asyncio.timeout(REACH_SECONDS):
                now = await storage_time(service, location.container)
                here = datetime.now(UTC)
                there = await blob_store(service, location.container).container_exists()
        except (EventConsumerError, TimeoutError) as error:
            _failed(checks, container, problems.storage_problem(field, location, _storage(error)).message)
            _skip(checks, (writable,), f"{container} failed")
            if clock:
                clock.skipped("clock", f"{container} failed")
            return
        if clock:
            judge_clock(here, now, clock)
        if not there:
            checks.passed(container, f"container {location.container} does not exist yet: the first host creates it")
            checks.skipped(writable, "the container does not exist yet")
            return
        checks.passed(container, f"container {location.container} exists")
        store = blob_store(service, location.container)
        versioned = await check_writable(store, field, location, writable, checks)
        if field == problems.LEASES:
            try:
                async with asyncio.timeout(REACH_SECONDS):
                    judge_account(await account_facts(service, location.container), versioned, checks)
            except (EventConsumerError, TimeoutError) as error:
                checks.skipped(ACCOUNT, str(_storage(error)))


def judge_account(facts: AccountFacts, versioned: bool | None, checks: Checks) -> None:
    """Compare the settings of the checkpoint store's account with Microsoft's advice. Pure.

    Args:
        facts: Settings of the account.
        versioned: Whether it keeps versions of blobs; None: unknown.
        checks: Receives the result.
    """
    settings = {
        "hierarchical namespace": facts.hierarchical,
        "blob soft delete": facts.soft_delete,
        "versioning": versioned,
    }
    on = [name for name, value in settings.items() if value]
    unknown = [name for name, value in settings.items() if value is None]
    more = f"; unknown: {', '.join(unknown)}" if unknown else ""
    if on:
        checks.warned(
            ACCOUNT,
            f"the account of the leases has {', '.join(on)}{more}",
            "use an account without them for spec.checkpointStore: each renewal and checkpoint would keep an old "
            f"state, and Microsoft advises against them for checkpoints ({ADVICE})",
        )
    elif len(unknown) == len(settings):
        checks.skipped(ACCOUNT, f"the credential may not ask for {', '.join(unknown)}")
    else:
        known = [name for name, value in settings.items() if value is False]
        checks.passed(ACCOUNT, f"the account of the leases has no {', no '.join(known)}{more}")


async def check_writable(
    store: BlobStore, field: str, location: BlobLocation | LeaseLocation, name: str, checks: Checks
) -> bool | None:
    """Write an empty blob and remove it; returns whether storage keeps versions, None if the write failed."""
    blob = f"{(location.prefix or '').strip().rstrip('/')}/_check/{uuid4()}".lstrip("/")
    try:
        async with asyncio.timeout(REACH_SECONDS):
            etag = await store.put(blob, b"", if_absent=True)
            info = await store.head(blob)
            await store.remove(blob, if_match=etag)
    except (EventConsumerError, TimeoutError) as error:
        _failed(checks, name, problems.storage_problem(field, location, _storage(error)).message)
        return None
    checks.passed(name, f"a blob was written to {location.container} and removed")
    return info is not None and info.versioned


def judge_clock(here: datetime, there: datetime, checks: Checks) -> None:
    """Compare this machine's clock with the storage's clock, which has a resolution of one second. Pure."""
    seconds = (here - there).total_seconds()
    if abs(seconds) <= SKEW_SECONDS:
        checks.passed("clock", f"within {SKEW_SECONDS:.0f} s of the storage's clock")
    else:
        way = "ahead of" if seconds > 0 else "behind"
        checks.failed(
            "clock",
            f"this node's clock is {abs(seconds):.0f} s {way} the storage's clock",
            "set the node's time (NTP): tokens and signatures are refused when clocks differ by minutes",
        )


async def check_notices(config: NoticesConfig, checks: Checks) -> None:
    """Whether the endpoint of notices can be reached; nothing is sent that it could process.

    Args:
        config: The endpoint.
        checks: Receives the result.
    """
    endpoint = NoticeEndpoint(config)
    try:
        judge_endpoint(config, await endpoint.look(), checks)
    except Blocked as error:
        _failed(checks, NOTICES, error.problem.message)
    except NoticeFailed as error:
        checks.failed(
            NOTICES,
            f"{error.field}: {error.cause}",
            "correct the URL; DNS, spec.proxy, a firewall or the NetworkPolicy of hosts may prevent the connection",
        )
    finally:
        await endpoint.close()


def judge_endpoint(config: NoticesConfig, status: int, checks: Checks) -> None:
    """Judge the answer of the endpoint of notices to OPTIONS, which many endpoints do not know. Pure.

    Args:
        config: The endpoint.
        status: The status of the answer.
        checks: Receives the result.
    """
    said = f"{config.url} answers with HTTP {status} to OPTIONS"
    if status in {401, 403, 407}:
        named = f"correct {place(config.credential)}" if config.credential else "set spec.sink.notices.authentication"
        checks.warned(NOTICES, said, f"{named}: the endpoint seems to refuse the credential")
    elif 300 <= status < 400:
        checks.warned(NOTICES, said, "set spec.sink.notices.url to the target of the redirect: hosts follow none")
    elif status >= 500 and status != 501:
        checks.warned(NOTICES, said, "restore the endpoint: hosts send each notice again until it is acknowledged")
    else:
        checks.passed(NOTICES, f"{said}, so it can be reached; notices are sent by POST")


async def _check_letters(config: HostConfig, checks: Checks) -> None:
    try:
        async with opened_service(config, problems.SINK, config.sink) as service, asyncio.timeout(REACH_SECONDS):
            await check_letters(blob_store(service, config.sink.container), config.sink.prefix, checks)
    except (EventConsumerError, TimeoutError) as error:
        why = error if isinstance(error, EventConsumerError) else _storage(error)
        checks.skipped(LETTERS, f"could not list them: {why}")


async def check_letters(store: BlobStore, prefix: str, checks: Checks) -> None:
    """Whether there are events that the handler could not process.

    Args:
        store: The container of the files.
        prefix: Their folder.
        checks: Receives the result.

    Raises:
        StorageError: A request failed.
    """
    segments = await list_segments(store, prefix)
    if not segments:
        checks.passed(LETTERS, "no host has registered yet")
        return
    folder = LetterFolder(prefix, segments[-1].segment_id)
    names = map(folder.parse, [info.name for info in await store.list(folder.letters, limit=LETTERS_LISTED)])
    found = [name[1] for name in names if name is not None]
    if not found:
        checks.passed(LETTERS, "there are none: the handler has processed all events")
        return
    number = f"{text(len(found))}{' or more' if len(found) >= LETTERS_LISTED else ''}"
    checks.warned(
        LETTERS,
        f"{number} events could not be processed; partitions: {', '.join(sorted(set(found), key=natural))}",
        "kubectl eventconsumer deadletters list shows the errors; correct the handler, then pass the events again with "
        "deadletters redrive",
    )


async def _outer(sink: BlobStore, prefix: str) -> str:
    """An enclosing folder with a chain; empty: none. A replay is inside the folder of its consumer."""
    parts = prefix.split("/")
    for length in range(1, len(parts)):
        outer = "/".join(parts[:length])
        if not prefix.startswith(f"{outer}/_replays/"):
            try:
                if await sink.head(chain_name(outer)) is not None:
                    return outer
            except NotFound:  # the container
                return ""
    return ""


def _storage(error: Exception) -> StorageError:
    return error if isinstance(error, StorageError) else StorageError(f"no answer within {REACH_SECONDS:.0f} s")


def _failed(checks: Checks, name: str, message: str) -> None:
    """Add a failed check; a colon separates cause and remedy in the message."""
    cause, colon, remedy = message.partition(": ")
    checks.failed(name, cause if colon else message, remedy)


def _skip(checks: Checks, names: tuple[str, ...], why: str) -> None:
    for name in names:
        checks.skipped(name, why)


async def check(config: Path, output: PrintFormat, config_json: str | None) -> int:
    """`check`: print the results; the exit code."""
    found = read_config(config) if config_json is None else _given(config_json)
    report = await run(found)
    show(report, output, _table)
    return DONE if report.ok else REFUSED


def _given(name: str) -> HostConfig:
    if name == "-":
        return parse_config(sys.stdin.read(), "stdin")
    return read_config(Path(name))


def _table(report: CheckReport, console: Console) -> None:
    words = {True: "ok", False: "FAILED", None: "-"}
    rows = [(one.check, "warning" if one.ok and one.remedy else words[one.ok], one.detail) for one in report.checks]
    console.print(table_of(("CHECK", "RESULT", "DETAIL"), rows))
    for one in report.checks:
        if one.remedy:
            console.print(f"{one.check}: {one.remedy}", soft_wrap=True)
