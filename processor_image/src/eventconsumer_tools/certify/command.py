"""The command `certify`: carries the checks out, one after the other, and removes everything that they made.

The first signal stops the check that runs and removes its blobs; later signals are ignored meanwhile. A lost terminal
(the output cannot be written) stops it as a signal does.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.shared.console import Console
from eventconsumer_api.wire.host_config import BlobContainer, HubConfig
from eventconsumer_host import problems
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.configuration import credential_in, read_config
from eventconsumer_host.credentials import hub_access
from eventconsumer_host.errors import CommandError, HubNotFound, SourceError
from eventconsumer_storage.account import StorageAccount, resolve_account
from eventconsumer_storage.async_blobs import blob_service
from eventconsumer_storage.errors import StorageError
from eventconsumer_tools.certify import events, hub, storage
from eventconsumer_tools.certify.hub import TOKEN_SECONDS, Namespace
from eventconsumer_tools.certify.model import (
    SEND,
    SLOW,
    Assumption,
    CertifyReport,
    CheckOutcome,
    Differs,
    Result,
    Skipped,
    judged,
    line,
    missing_option,
    skipped,
)
from eventconsumer_tools.certify.storage import CheckBlobs
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import quiet, say, show, table_of

CANNOT_RUN = 2
HUB, LEASES, SINK = "hub", "leases", "sink"
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")
Tell = Callable[[str], object]


@dataclass(frozen=True)
class CertifiedContainer:
    """A container of the consumer.

    Attributes:
        target: `LEASES`, `SINK`, or both.
        part: `problems.LEASES` or `problems.SINK`, for messages.
        location: The container.
        prefix: Of the consumer's blobs.
        checks: Of blobs in it.
    """

    target: str
    part: str
    location: BlobContainer
    prefix: str | None
    checks: tuple[Assumption[CheckBlobs], ...]

    @property
    def all_checks(self) -> tuple[Assumption[CheckBlobs], ...]:
        """The checks of the whole account, and those of the blobs."""
        return (*storage.ACCOUNT, *self.checks)


@dataclass(frozen=True)
class Target:
    """What is checked.

    Attributes:
        hub: The Event Hub, with the consumer group of the run.
        leases: The lease container.
        sink: The container of the files.
        insecure: Whether plain connections to any host are allowed.
        hub_suffixes: Otherwise, the allowed suffixes of namespaces.
        storage_suffixes: Otherwise, the allowed suffixes of storage accounts.
        given: Options of the command: `SLOW`, `SEND`.
        lease_seconds: Duration of the leases of checks.
        token_seconds: Lifetime of the token that expires in a check.
    """

    hub: HubConfig
    leases: CertifiedContainer
    sink: CertifiedContainer
    insecure: bool
    hub_suffixes: tuple[str, ...]
    storage_suffixes: tuple[str, ...]
    given: tuple[str, ...] = ()
    lease_seconds: int = storage.LEASE_SECONDS
    token_seconds: int = TOKEN_SECONDS


@dataclass
class Run:
    """The results so far."""

    tell: Tell
    given: tuple[str, ...]
    results: list[Result] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def add(self, *results: Result) -> None:
        """Record and print results."""
        for result in results:
            self.results.append(result)
            self.tell(line(result))

    async def carry_out(
        self, target: str, assumptions: Sequence[Assumption[T]], subject: T, tidy: Callable[[], Awaitable[None]]
    ) -> None:
        """Carry checks out in their order."""
        for assumption in assumptions:
            if why := missing_option(assumption, self.given):
                self.add(judged(target, assumption, CheckOutcome.SKIPPED, why))
                continue
            started = time.monotonic()
            outcome, detail = await judge(assumption, subject)
            await tidy()
            self.add(judged(target, assumption, outcome, detail, time.monotonic() - started))


async def judge(assumption: Assumption[T], subject: T) -> tuple[CheckOutcome, str]:
    """Carry one check out: its outcome, and what was seen."""
    try:
        async with asyncio.timeout(assumption.seconds):
            return CheckOutcome.PASSED, await assumption.check(subject)
    except Differs as found:
        return CheckOutcome.DIFFERS, str(found)
    except Skipped as found:
        return CheckOutcome.SKIPPED, str(found)
    except EventConsumerError as error:
        return CheckOutcome.FAILED, f"undecided: {error}"
    except TimeoutError:
        return CheckOutcome.FAILED, f"undecided: no result within {assumption.seconds:.0f} s"


def from_config(path: Path, consumer_group: str, given: tuple[str, ...]) -> Target:
    """The target of a host's configuration.

    Raises:
        CommandError: It cannot be read, or its own consumer group was named.
    """
    config = read_config(path, ", or use --hub-connection-string-file and --connection-string-file")
    own = config.event_hub.consumer_group
    if own.lower() == consumer_group.lower():
        raise CommandError(
            f"{own} is the consumer group of EventConsumer {config.resource.path}: the checks disconnect its readers. "
            "Create another consumer group, and name it with --consumer-group"
        )
    location = config.leases.location
    return Target(
        config.event_hub.model_copy(update={"consumer_group": consumer_group}),
        CertifiedContainer(LEASES, problems.LEASES, location, location.prefix, storage.LEASES),
        CertifiedContainer(SINK, problems.SINK, config.sink, config.sink.prefix, storage.FILES),
        config.allow_insecure_endpoints,
        config.hub_suffixes,
        config.storage_suffixes,
        given,
    )


def from_files(
    hub_file: Path | None, storage_file: Path | None, container: str, consumer_group: str, given: tuple[str, ...]
) -> Target:
    """The target of two connection strings; the user who runs this command chose the endpoints.

    Args:
        hub_file: With the connection string of the hub, with EntityPath.
        storage_file: With the connection string of the storage account.
        container: Used if the credential cannot create one; empty: none.
        consumer_group: Of the run.
        given: Options of the command.

    Raises:
        CommandError: A file is missing.
    """
    if hub_file is None or storage_file is None:
        raise CommandError("--hub-connection-string-file and --connection-string-file are used together")
    for file in (hub_file, storage_file):
        if not file.is_file():
            raise CommandError(f"cannot read the connection string: file {file} does not exist")
    credential = credential_in(hub_file, "--hub-connection-string-file")
    location = BlobContainer(container=container, credential=credential_in(storage_file, "--connection-string-file"))
    part = "--connection-string-file"
    return Target(
        HubConfig(consumer_group=consumer_group, credential=credential),
        CertifiedContainer(LEASES, part, location, "", storage.LEASES),
        CertifiedContainer(SINK, part, location, "", storage.FILES),
        True,
        (),
        (),
        given,
    )


async def certify(target: Target, tell: Tell) -> CertifyReport:
    """Carry all checks out; everything that they made is removed, also after a signal.

    Args:
        target: What is checked.
        tell: Receives a line for each result.

    Raises:
        CommandError: The consumer group has readers.
        EventConsumerError: A credential cannot be used, or the consumer group does not exist.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    run = Run(tell, target.given)
    stopped = False
    with _stoppable() as was_stopped:
        try:
            await _checks(target, run)
        except asyncio.CancelledError:
            if not was_stopped():
                raise
            stopped = True
    if stopped:
        _skip_rest(target, run)
    return CertifyReport(
        program=_version(),
        started=started,
        seconds=round(time.monotonic() - clock, 1),
        consumer_group=target.hub.consumer_group,
        slow=SLOW in target.given,
        send=SEND in target.given,
        stopped=stopped,
        facts=run.facts,
        results=run.results,
        leftovers=run.left,
    )


def groups() -> tuple[Assumption[Namespace], ...]:
    """All checks of the hub, in their order."""
    return (*hub.HUB, *events.EVENTS, *hub.LAST)


async def _checks(target: Target, run: Run) -> None:
    accounts = _accounts(target)  # before anything is opened: a wrong credential must not leave half a report
    access = hub_access(target.hub, target.insecure, target.hub_suffixes)
    async with AsyncExitStack() as stack:
        namespace = Namespace(access, AmqpHub(access), token_seconds=target.token_seconds)
        stack.push_async_callback(namespace.close)
        reached = await _reach(namespace, target, run)
        for place, account in accounts:
            await _check_account(target, place, account, run)
        if reached:
            await run.carry_out(HUB, groups(), namespace, namespace.tidy)


async def _reach(namespace: Namespace, target: Target, run: Run) -> bool:
    """Look at the hub, and refuse a consumer group that is in use; False if the hub does not respond."""
    try:
        await hub.look(namespace)
        used = await hub.readers(namespace)
        run.facts |= {f"{HUB} {name}": value for name, value in (await hub.facts(namespace)).items()}
    except HubNotFound as error:
        group = namespace.info is not None
        raise CommandError(problems.hub_problem(target.hub, error, group=group).message) from error
    except SourceError as error:
        message = problems.hub_problem(target.hub, error).message
        run.add(
            judged(HUB, hub.REACHABLE, CheckOutcome.FAILED, message), *skipped(HUB, groups(), "the hub did not respond")
        )
        return False
    if used:
        raise CommandError(
            f"consumer group {target.hub.consumer_group} has readers, at partition {', '.join(used[:5])}: the checks "
            "disconnect them. Create a consumer group for the checks, and name it with --consumer-group"
        )
    await run.carry_out(HUB, (hub.REACHABLE,), namespace, namespace.tidy)
    return True


def _accounts(target: Target) -> list[tuple[CertifiedContainer, StorageAccount]]:
    """The accounts, each with the checks for it: one where leases and files are in one account."""
    leases, sink = target.leases, target.sink
    accounts = [
        resolve_account(place.location, place.part, allow_insecure=target.insecure, suffixes=target.storage_suffixes)
        for place in (leases, sink)
    ]
    if accounts[0] == accounts[1]:
        both = CertifiedContainer(
            f"{LEASES}, {SINK}", sink.part, sink.location, sink.prefix, (*storage.FILES, *storage.LEASES)
        )
        return [(both, accounts[1])]
    return list(zip((leases, sink), accounts, strict=True))


async def _check_account(target: Target, place: CertifiedContainer, account: StorageAccount, run: Run) -> None:
    service = blob_service(place.location, place.part, target.insecure, target.storage_suffixes)
    credential = service.credential
    token = uuid4().hex[:12]
    async with AsyncExitStack() as stack:
        if hasattr(credential, "get_token"):
            stack.push_async_callback(credential.close)
        await stack.enter_async_context(service)
        try:
            scratch = await stack.enter_async_context(
                storage.scratch(
                    service,
                    account,
                    container=place.location.container,
                    prefix=place.prefix,
                    run=token,
                    left=run.left.append,
                    lease_seconds=target.lease_seconds,
                )
            )
        except StorageError as error:
            message = problems.storage_problem(place.part, place.location, error).message
            run.add(
                judged(place.target, storage.WRITABLE, CheckOutcome.FAILED, message),
                *skipped(place.target, place.all_checks, "the account is not writable"),
            )
            return
        run.tell(f"{place.target}: the blobs of the checks are in {scratch.where}, which is removed at the end")
        run.facts |= {f"{place.target} {name}": value for name, value in (await storage.facts(scratch)).items()}
        await run.carry_out(place.target, (storage.WRITABLE, *place.all_checks), scratch, _nothing)


async def _nothing() -> None:
    """The checks of storage leave nothing open."""


def _skip_rest(target: Target, run: Run) -> None:
    """Record the checks that a signal prevented."""
    done = {(result.target, result.check) for result in run.results}
    why = "stopped by a signal"
    planned = [result for place, _ in _accounts(target) for result in skipped(place.target, place.all_checks, why)]
    planned += skipped(HUB, groups(), why)
    run.results += [result for result in planned if (result.target, result.check) not in done]


@contextlib.contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """The first signal cancels the task of the block; gives whether there was one."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    stopped: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        stopped.append(number)
        if len(stopped) == 1:
            task.cancel()

    for number in _STOPS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield lambda: bool(stopped)
    finally:
        for number in _STOPS:
            loop.remove_signal_handler(number)


def _version() -> str:
    try:
        return version("eventconsumer-processor")
    except PackageNotFoundError:  # run from the sources
        return "unknown"


def run(make: Callable[[], Target], output: PrintFormat) -> int:
    """Run the command: print results as they come, then the report; the exit code.

    Args:
        make: Reads the configuration.
        output: Output format of the report.
    """
    quiet()
    try:
        report = asyncio.run(certify(make(), say))
    except EventConsumerError as error:
        say(f"eventconsumer: {error}")
        return CANNOT_RUN
    except OSError:  # the output cannot be written
        return CANNOT_RUN
    show(report, output, table)
    return report.exit_code


def table(report: CertifyReport, console: Console) -> None:
    """Print the report for people."""
    rows = [(each.target, each.check, each.outcome.value, each.detail) for each in report.results]
    console.print(table_of(("TARGET", "CHECK", "RESULT", "DETAIL"), rows))
    for name, value in report.facts.items():
        console.print(f"{name}: {value}", soft_wrap=True)
    for each in report.results:
        if each.outcome is CheckOutcome.DIFFERS:
            console.print(f"\n{each.check} differs: {each.assumption}", soft_wrap=True)
            console.print(f"  seen: {each.detail}", soft_wrap=True)
            console.print(f"  consequence: {each.consequence}", soft_wrap=True)
            console.print(f"  remedy: {each.remedy}", soft_wrap=True)
    for left in report.leftovers:
        console.print(f"not removed: {left}", soft_wrap=True)
    counts = ", ".join(f"{report.count(outcome)} {outcome.value}" for outcome in CheckOutcome)
    console.print(f"\n{counts}, in {report.seconds:.0f} s")
