"""What a task of the leading host is, and what it is given.

A task is one module of this folder, and one line of `Leader._tasks_of`. The leading host creates it anew each time it
leads, and calls `step` again and again, `pause` seconds after the last call ended. Tasks run side by side, so a slow
one delays no other. A step that fails is tried again; its failure is a problem of the host until a step succeeds.

No task follows a chain: `tail` does, for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from eventconsumer_api.wire.host_report import PartitionReport, Problem
from eventconsumer_host.lease.model import Lease, LeaseListing

MEASURE_SECONDS = 5.0  # between two looks at the hub, the leases and the files
FIRST_SECONDS = 1.0  # between two looks whether there is a first measurement, which sends no request


@dataclass(frozen=True)
class View:
    """What is known of the fleet when a step begins.

    Attributes:
        partitions: All partition ids that hosts know.
        leases: By partition, at the last scan.
        commits: Partition -> end of the files that this host has committed itself.
    """

    partitions: Sequence[str]
    leases: Mapping[str, Lease] = field(default_factory=dict)
    commits: Mapping[str, int] = field(default_factory=dict)

    def reached(self, partition: str) -> int:
        """The end of a partition's files, as far as checkpoints and commits of this host tell; 0: they do not."""
        lease = self.leases.get(partition)
        checkpoint = lease.checkpoint.sequence_number + 1 if lease and lease.checkpoint else 0
        return max(checkpoint, self.commits.get(partition, 0))


class Partitions(Protocol):
    """The partitions of a host, see `partition.manager.PartitionManager`, which the probe does not load."""

    @property
    def partition_ids(self) -> Sequence[str]:
        """Ids of all partitions of the hub."""

    @property
    def listing(self) -> LeaseListing:
        """The leases at the last scan."""

    def reports(self) -> list[PartitionReport]:
        """Reports of the owned partitions."""

    async def scanned(self, since: float) -> bool:
        """Scan now, unless a scan began after `since`; False if it fails."""

    def allow_rest(self, allowed: bool) -> None:
        """Allow or forbid rare scans."""


class LeaderTask(Protocol):
    """A task of the leading host.

    Attributes:
        name: The work, for messages: "the leading host failed to do a task".
    """

    name: str

    @property
    def pause(self) -> float:
        """Seconds until the next step."""

    async def step(self, view: View) -> None:
        """Do what is due now.

        Raises:
            Blocked: It needs an action of the user.
            StorageError: A request failed; the next step continues.
            LeaseLost: This host must not write any more.
        """

    def report(self) -> Mapping[str, object]:
        """Its fields of `FleetReport`."""

    def problems(self) -> list[Problem]:
        """Problems that need an action, besides the failure of the last step."""

    async def rest(self, view: View) -> None:
        """Do what is left for the files that were written while this host stopped. Raises as `step`."""

    async def end(self) -> None:
        """End what the steps have started; this host does not lead any more."""


class Task:
    """What most tasks have in common."""

    @property
    def pause(self) -> float:
        """See `LeaderTask`."""
        return MEASURE_SECONDS

    def report(self) -> Mapping[str, object]:
        """See `LeaderTask`."""
        return {}

    def problems(self) -> list[Problem]:
        """See `LeaderTask`."""
        return []

    async def rest(self, view: View) -> None:
        """See `LeaderTask`."""

    async def end(self) -> None:
        """See `LeaderTask`."""
