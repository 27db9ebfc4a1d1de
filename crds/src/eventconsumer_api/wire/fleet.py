"""FleetMessage: the operator's signed message to every host about the whole fleet, on `POST /fleet`.

It influences the balance, never the safety: whatever its content, the slot chain keeps each event in one file. A host
accepts a message with a valid Ed25519 signature of the body in `FLEET_SIGNATURE_HEADER` (base64), its own resource, a
generation above the last accepted one, and a time close to its own. Without a message for
`FLEET_SILENCE_SECONDS` it balances by leases alone.
"""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from eventconsumer_api.shared.model import Report

FLEET_PATH = "/fleet"
FLEET_SIGNATURE_HEADER = "X-EventConsumer-Signature"
FLEET_SILENCE_SECONDS = 60.0  # above the operator's longest interval between two reconciles of an idle resource
FLEET_CLOCK_SECONDS = 300.0  # maximum difference of the wall clocks of operator and host
FLEET_MAX_BYTES = 256 * 1024
HUB_QUIET_SECONDS = 5.0
HUB_QUERIES_PER_SECOND = 5.0  # of all hosts of a consumer; a hub answers 50, of all its clients


def hub_quiet_seconds(hosts: int) -> float:
    """Silence of the hub after which a host asks it, and the shortest time between two queries of the host, seconds.

    A hub answers 50 queries in any second, of all its clients together, so the hosts of a consumer share a lower rate.
    Source: https://learn.microsoft.com/azure/event-hubs/event-hubs-quotas
    """
    return max(HUB_QUIET_SECONDS, hosts / HUB_QUERIES_PER_SECOND)


def deaf_hosts(silence: Mapping[str, float]) -> tuple[str, ...]:
    """The hosts that do not hear the hub while others do: four queries are due without an answer.

    If the hub is away, all hosts last heard it at about the same time, so none is deaf.

    Args:
        silence: Host -> seconds since it heard the hub.
    """
    quiet = hub_quiet_seconds(len(silence))
    if min(silence.values(), default=0.0) > 2 * quiet:
        return ()
    return tuple(sorted(host for host, seconds in silence.items() if seconds >= 4 * quiet))


class FleetMessage(Report):
    """The fleet, from the operator's view."""

    resource: str = Field(
        description="<namespace>/<name> of the EventConsumer: the same when it is deleted and applied again."
    )
    generation: int = Field(description="Rises with each message, across restarts of the operator too.")
    time: datetime = Field(description="Time of the message.")
    hosts: int = Field(ge=0, description="Hosts wanted: the pods <name>-host-0 to <name>-host-<hosts - 1>.")
    partitions: int | None = Field(
        default=None, description="Partitions of the hub, as reported by hosts; absent: unknown."
    )
    ready: tuple[str, ...] = Field(
        default=(), description="Names of the pods that are ready, can take partitions, and stay."
    )
    deaf: tuple[str, ...] = Field(
        default=(),
        description="Names of the pods that do not hear the hub while others do: they give up all partitions.",
    )
    gone: tuple[str, ...] = Field(default=(), description="Owner ids of pods that are confirmed to have ended.")
