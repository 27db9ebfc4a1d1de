"""FleetMessage: what the operator tells every host about the whole fleet, signed, on `POST /fleet`.

It changes what hosts wish for, never what is safe: whatever it says, the chain of slots keeps each event in one file. A
host believes a message that carries a valid Ed25519 signature of the body in `FLEET_SIGNATURE_HEADER` (base64), its own
resource, a generation above the last one believed, and a time close to its own. Without a message for
`FLEET_SILENCE_SECONDS` it balances by leases alone.
"""

from datetime import datetime

from pydantic import Field

from eventconsumer_api.model import Report

FLEET_PATH = "/fleet"
FLEET_SIGNATURE_HEADER = "X-EventConsumer-Signature"
FLEET_SILENCE_SECONDS = 60.0  # above the operator's longest pause between two looks at a resting resource
FLEET_CLOCK_SECONDS = 300.0  # how far operator's and host's wall clocks may be apart
FLEET_MAX_BYTES = 256 * 1024


class FleetMessage(Report):
    """The fleet as the operator sees it."""

    resource: str = Field(
        description="<namespace>/<name> of the EventConsumer: the same when it is deleted and applied again."
    )
    generation: int = Field(description="Rises with each message, across restarts of the operator too.")
    time: datetime = Field(description="When it was written.")
    hosts: int = Field(ge=0, description="Hosts wanted: the pods <name>-host-0 to <name>-host-<hosts - 1>.")
    partitions: int | None = Field(
        default=None, description="Partitions of the hub as hosts reported them; absent: none knows."
    )
    ready: tuple[str, ...] = Field(
        default=(), description="Names of the pods that are ready, can take partitions, and stay."
    )
    gone: tuple[str, ...] = Field(default=(), description="Owner ids of pods that have certainly ended.")
