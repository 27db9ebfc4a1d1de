"""Makes the JSON of the API from the histories. Pure."""

from collections import Counter
from datetime import UTC, datetime

from eventconsumer_api.resource.remedies import Severity, remedy, severity
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_api.v1alpha1.status import Condition
from eventconsumer_api.wire.identity import pod_of
from eventconsumer_operator.keys import Key
from eventconsumer_operator.page.histories import Entry, Histories
from eventconsumer_operator.page.history import SLOT_SECONDS, SLOTS, History
from eventconsumer_operator.page.model import (
    BatchView,
    Choice,
    ConditionView,
    ConsumerDetail,
    ConsumerList,
    ConsumerSummary,
    HostView,
    MoveView,
    PartitionView,
    Tenure,
    TimelineView,
)

_WORST_FIRST: tuple[Severity, ...] = ("problem", "notice", "ok")


def consumer_list(histories: Histories, choice: Choice) -> ConsumerList:
    """Summaries of one page of the chosen EventConsumers."""
    found = [(key, entry) for key, entry in histories if _is_chosen(key, entry, choice)]
    if choice.sort == "lag":
        found.sort(key=lambda each: _late(each[1]))
    elif choice.sort == "state":
        found.sort(key=lambda each: (_WORST_FIRST.index(each[1].severity), *_late(each[1])))
    pages = max(1, -(-len(found) // choice.limit))
    page = min(choice.page, pages)
    states = Counter(entry.severity for _, entry in histories)
    return ConsumerList(
        consumers=[summary(key, entry) for key, entry in found[(page - 1) * choice.limit : page * choice.limit]],
        total=len(histories),
        found=len(found),
        page=page,
        pages=pages,
        states={each: states[each] for each in _WORST_FIRST},
    )


def _is_chosen(key: Key, entry: Entry, choice: Choice) -> bool:
    return choice.state in {None, entry.severity} and choice.search.strip().lower() in str(key).lower()


def _late(entry: Entry) -> tuple[float, int]:
    lag = entry.status.lag
    return -(lag.seconds or 0), -(lag.events or 0)


def summary(key: Key, entry: Entry) -> ConsumerSummary:
    """Summary of one EventConsumer."""
    status = entry.status
    ready = status.condition(ConditionType.READY)
    return ConsumerSummary(
        namespace=key.namespace,
        name=key.name,
        observed_at=entry.observed_at,
        ready=ready.status if ready else "Unknown",
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
        severity=entry.severity,
        hosts=status.hosts,
        partitions=status.partitions,
        lag=status.lag,
        drained=status.drained,
    )


def detail(key: Key, entry: Entry) -> ConsumerDetail:
    """One EventConsumer with its last hour."""
    history = entry.history
    return ConsumerDetail(
        summary=summary(key, entry),
        conditions=[_condition(condition) for condition in entry.status.conditions],
        timeline=_timeline(history),
        partitions=_partitions(history),
        hosts=[
            HostView(name=host.name, state=host.state, partitions=host.partitions, leads=host.leads)
            for host in entry.hosts
        ],
        moves=[
            MoveView(
                time=_time(move.time),
                partition=str(move.partition),
                source=pod_of(move.source),
                target=pod_of(move.target),
            )
            for move in reversed(history.moves)
        ],
        batches=[
            BatchView(
                number=batch.number,
                reason=batch.reason,
                files=batch.files,
                events=batch.events,
                created=batch.created,
                committed=batch.committed,
                rows=batch.rows,
                seconds=batch.seconds,
            )
            for _, batch in sorted(history.batches.items(), reverse=True)
        ],
        scaling=entry.status.scaling,
        spark=entry.status.spark,
    )


def tenures(history: History) -> dict[int, list[Tenure]]:
    """The readers of each partition, oldest first, since owners are known; an empty owner means no reader."""
    if history.owners_since is None:
        return {}
    named = {*history.owners, *(move.partition for move in history.moves), *range(history.partitions)}
    ends: dict[int, float] = {}
    last = {partition: history.owners.get(partition, "") for partition in named}
    found: dict[int, list[Tenure]] = {partition: [] for partition in named}
    # From now back: the source of a move is the owner before it.
    for move in reversed(history.moves):
        found[move.partition].append(_tenure(move.target, move.time, ends.get(move.partition)))
        ends[move.partition], last[move.partition] = move.time, move.source
    for partition, each in found.items():
        if (end := ends.get(partition)) is None or end > history.owners_since:
            each.append(_tenure(last[partition], history.owners_since, end))
        each.reverse()
    return found


def _tenure(owner: str, start: float, end: float | None) -> Tenure:
    return Tenure(host=pod_of(owner), owner=owner, start=_time(start), end=None if end is None else _time(end))


def _partitions(history: History) -> list[PartitionView]:
    known = tenures(history)
    return [
        PartitionView(
            id=str(number),
            owner=pod_of(history.owners.get(number, "")),
            events=history.lag_events(number),
            seconds=history.lag_seconds(number),
            tenures=known.get(number, []),
        )
        for number in range(history.partitions)
    ]


def _timeline(history: History) -> TimelineView:
    slots = history.slots()
    return TimelineView(
        start=_time(slots[0] * SLOT_SECONDS) if slots else None,
        slot_seconds=SLOT_SECONDS,
        slots=SLOTS if slots else 0,
        files=history.new_files(),
        events=history.new_events(),
    )


def _condition(condition: Condition) -> ConditionView:
    return ConditionView(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        severity=severity(condition),
        remedy=remedy(condition),
        since=condition.last_transition_time,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
