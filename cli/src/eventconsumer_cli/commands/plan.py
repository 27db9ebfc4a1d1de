"""`plan`: hosts, storage requests and cost of a consumer, from its spec and a rate of events."""

import math
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.console import RenderableType
from rich.text import Text

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.resource.capacity import DAY_SECONDS, MONTH_SECONDS, CapacityPlan, Prices
from eventconsumer_api.resource.capacity import plan as plan_for
from eventconsumer_api.shared.plurals import plural
from eventconsumer_api.v1alpha1 import KIND, EventConsumerSpec
from eventconsumer_cli.commands.partitions import look_at
from eventconsumer_cli.errors import Failed
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import BAD, DIM, WARN, table
from eventconsumer_cli.rates import Rates, total
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM, count, duration, rate, size

_NAMES = {each.name.replace("_", "-"): each.name for each in fields(Prices)}
_PRICES = "Names and examples: " + ", ".join(
    f"{each.name.replace('_', '-')} {each.default:g}" for each in fields(Prices)
)
_BUSY = 0.8  # share of a limit from which it is a warning


def plan(  # noqa: PLR0913, PLR0917 - each is an option
    session: Session,
    name: ConsumerName = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="Manifest of the consumer; - for stdin. Needs no cluster.")
    ] = None,
    events: Annotated[
        float | None,
        typer.Option("--rate", min=0, help="Expected events per second. Default: measured, for a running consumer."),
    ] = None,
    event_bytes: Annotated[int, typer.Option("--event-bytes", min=1, help="Mean size of an event, bytes.")] = 1000,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, max=2048, help="Partitions of the Event Hub. Default: as hosts reported."),
    ] = None,
    hosts: Annotated[
        int | None, typer.Option("--hosts", min=1, max=1024, help="Number of hosts. Default: by spec.scaling.")
    ] = None,
    kept_days: Annotated[float, typer.Option("--kept-days", min=0, help="Days for which files are kept.")] = 30.0,
    interval: Annotated[float, typer.Option("--interval", min=1, max=600, help="Seconds of a measurement.")] = 20.0,
    price: Annotated[
        list[str] | None, typer.Option("--price", metavar="NAME=AMOUNT", help=f"A price; may be repeated. {_PRICES}")
    ] = None,
) -> None:
    """Plan the capacity and the monthly cost of a consumer.

    Computes hosts, CPU, memory, files, storage requests, throughput units and limits from the spec and a rate; the
    concept page "Capacity" explains the model. The default prices are examples: give your own.
    """
    prices = _prices(price or [])
    if file is not None:
        if name is not None:
            raise Failed("a name and --file exclude each other", "plan a manifest or a consumer of the cluster")
        manifest = _read(file)
        needed = {"--rate": events, "--partitions": partitions}
        if absent := [option for option, value in needed.items() if value is None]:
            raise Failed(f"a manifest says nothing about {' and '.join(absent)}", f"add {' and '.join(absent)}")
    else:
        manifest, partitions, events = _measured(session, name, partitions, events, interval)
    made = plan_for(_spec(manifest), events or 0.0, event_bytes, partitions or 1, hosts)
    costs = made.costs(prices, kept_days)
    title = str(manifest.get("metadata", {}).get("name") or "")
    session.out.show(_document(title, made, costs), lambda: _view(title, made, costs, kept_days), [title])


def _prices(given: list[str]) -> Prices:
    """The example prices with the given ones in their places.

    Raises:
        Failed: A name is unknown, or an amount is no number from 0 on.
    """
    found = {}
    for each in given:
        name, _, amount = each.partition("=")
        try:
            found[_NAMES[name]] = float(amount)
        except KeyError:
            raise Failed(f"--price: there is no price {name!r}", f"use one of {', '.join(_NAMES)}") from None
        except ValueError:
            raise Failed(f"--price {each}: the amount is not a number", f"write for example {name}=0.04") from None
        if not 0 <= found[_NAMES[name]] < math.inf:
            raise Failed(f"--price {each}: the amount is below 0 or not finite", f"write for example {name}=0.04")
    return replace(Prices(), **found)


def _read(file: str) -> Manifest:
    """The EventConsumer of a manifest file.

    Raises:
        Failed: The file cannot be read, or it has not exactly one EventConsumer.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        found = [each for each in yaml.safe_load_all(text) if isinstance(each, Mapping) and each.get("kind") == KIND]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Failed(f"{file} cannot be read: {error}", "name a YAML or JSON file") from error
    if len(found) != 1:
        raise Failed(f"{file} has {plural(len(found), KIND)}", f"name a file with one {KIND}")
    return dict(found[0])


def _spec(manifest: Manifest) -> EventConsumerSpec:
    try:
        return EventConsumerSpec.model_validate(manifest.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, ("spec", *first["loc"])))
        raise Failed(f"{field}: {first['msg']}", "see the reference of EventConsumer") from error


def _measured(
    session: Session, name: str | None, partitions: int | None, events: float | None, interval: float
) -> tuple[Manifest, int, float]:
    """A consumer of the cluster, its partitions, and the rate at which its hosts receive events."""
    look = look_at(session, name, ask=events is None)
    known = partitions or look.status.partitions.total
    if not known:
        raise Failed(f"no host of {look.name} has reported the number of partitions", "add --partitions")
    if events is None:
        rates = Rates()
        rates.add(look)
        session.out.note(f"measuring the rate of events for {duration(interval)}; --rate gives it instead")
        time.sleep(interval)
        look = look_at(session, look.name)
        rates.add(look)
        found = total(rates.by_partition())
        if found is None:
            raise Failed(
                f"the rate of events of {look.name} is unknown: its hosts did not report it twice",
                f"add --rate, or see `{PROGRAM} status {look.name} -n {look.namespace}`",
            )
        events = found.received
    return look.consumer, known, events


def _document(name: str, made: CapacityPlan, costs: Mapping[str, float]) -> dict[str, Any]:
    load = made.load
    return {
        "name": name or None,
        "load": {
            "eventsPerSecond": load.rate,
            "eventBytes": load.event_bytes,
            "bytesPerSecond": load.bytes,
            "partitions": load.partitions,
        },
        "hosts": {
            "number": load.hosts,
            "needed": made.needed_hosts,
            "cores": round(made.cores, 4),
            "coresOfOneHost": round(made.cores / load.hosts, 4),
            "mebibytesOfOneHost": round(made.mib),
        },
        "files": {"perDay": round(load.files * DAY_SECONDS), "bytes": round(made.file_bytes)},
        "storageRequests": {
            "writesPerMonth": round(made.requests.writes * MONTH_SECONDS),
            "readsPerMonth": round(made.requests.reads * MONTH_SECONDS),
        },
        "spark": {"batchesPerDay": round(made.batches_per_day), "cores": round(made.spark_cores, 4)},
        "throughputUnits": made.units,
        "limits": [
            {"name": each.name, "used": round(each.used, 4), "limit": each.limit, "sign": each.sign}
            for each in made.limits
        ],
        "costsPerMonth": {item: round(cost, 2) for item, cost in costs.items()},
        "costPerMonth": round(sum(costs.values()), 2),
    }


def _view(name: str, made: CapacityPlan, costs: Mapping[str, float], kept_days: float) -> Iterator[RenderableType]:
    load = made.load
    yield Text(
        f"{name or 'consumer'}: {rate(load.rate)} events per second of {size(load.event_bytes)}, "
        f"{size(load.bytes)}/s, {plural(load.partitions, 'partition')}\n"
    )
    yield table(("part", "plan"), list(_lines(made)), fold=("plan",))
    yield from _limits(made)
    yield Text("")
    rows = [[item, f"{cost:,.2f}"] for item, cost in costs.items()] + [["total", f"{sum(costs.values()):,.2f}"]]
    yield table(("cost per month", "amount"), rows, right=("amount",))
    yield Text(
        f"files kept for {kept_days:g} days, without redundancy and Spark's output; the default prices are examples",
        style=DIM,
    )


def _lines(made: CapacityPlan) -> Iterator[tuple[str, str]]:
    load = made.load
    enough = "" if load.hosts >= made.needed_hosts else f"; the load needs {made.needed_hosts}"
    more = f"; {made.needed_hosts} can carry it" if load.hosts > made.needed_hosts else ""
    yield "hosts", f"{load.hosts}{enough}{more}"
    yield (
        "one host",
        f"{made.cores / load.hosts:.3f} cores of {made.request_cores:g} reserved, "
        f"{made.mib:,.0f} MiB of {made.request_mib:,.0f} reserved",
    )
    if load.files:
        yield "files", f"{load.files * DAY_SECONDS:,.0f} per day of about {size(made.file_bytes)}"
    requests = made.requests
    yield (
        "storage",
        f"{requests.writes * MONTH_SECONDS:,.0f} writes and listings, "
        f"{requests.reads * MONTH_SECONDS:,.0f} reads per month",
    )
    if made.batches_per_day:
        yield "Spark", f"{count(made.batches_per_day)} batches per day, {made.spark_cores:.2f} cores"
    yield "hub", f"{plural(made.units, 'throughput unit')} for one reader"


def _limits(made: CapacityPlan) -> Iterator[RenderableType]:
    yield Text("")
    rows = [[each.name, f"{each.share:.1%}", f"{each.used:,.4g} of {each.limit:,.5g}"] for each in made.limits]
    yield table(("limit", "used", "amount"), rows, right=("used",))
    for each in made.limits:
        if each.share > 1:
            yield Text(f"{each.name}, above the limit: {each.sign}", style=BAD)
        elif each.share >= _BUSY:
            close = "at the limit" if each.share == 1 else "close to the limit"
            yield Text(f"{each.name}, {close}; above it, {each.sign}", style=WARN)
