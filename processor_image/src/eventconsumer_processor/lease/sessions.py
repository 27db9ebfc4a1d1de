"""PURE: a host's session, and what it means for the leases that are tied to it.

A host that renews each of its leases pays for each. So it keeps one lease more, its session, renews only that, and
ties the leases of its partitions to it: a tied lease is held as long as the session named in it lives, and no longer.
Whoever looks at leases looks at sessions too, in the same listing. What shows that a host lives is then out of sight
of programs that know no sessions: among those, hosts renew each lease as the programs do. `TieRule` decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_processor.lease.model import Lease
from eventconsumer_processor.lease.planned import pod_of

FOLDER = "sessions"


@dataclass(frozen=True, slots=True)
class Session:
    """A host's session, as last read or begun."""

    pod: str  # one at a time for each pod
    token: str  # of the process that holds it, or did last
    alive: bool = True  # its storage lease has not run out

    @property
    def text(self) -> str:
        """What a tied lease names."""
        return f"{self.pod}/{self.token}"


def is_tied(lease: Lease) -> bool:
    """Whether a lease names a session of its very owner; a program that takes a lease over may leave the name there."""
    return bool(lease.session) and lease.session.rpartition("/")[0] == pod_of(lease.owner)


def is_held(lease: Lease, sessions: Mapping[str, Session]) -> bool:
    """Whether the session that a tied lease names is alive."""
    found = sessions.get(pod_of(lease.owner))
    return found is not None and found.alive and found.text == lease.session


class TieRule:
    """Whether leases may be tied: only while all owners that are seen know of sessions.

    An owner without a session is another program, or a host of a version that has none. It is given a moment, since
    that host may just have begun.

    Attributes:
        shared: Other programs share the leases: nothing is ever tied.
        may_tie: Whether leases may be tied now.
        must_untie: Whether those that are tied must be renewed by themselves again.
    """

    def __init__(self, patience: float, *, shared: bool) -> None:
        """A rule that has seen nothing yet.

        Args:
            patience: Seconds for which an owner without a session does not untie what is tied.
            shared: Other programs share the leases: nothing is ever tied.
        """
        self._patience = patience
        self.shared = shared
        self._since: dict[str, float] = {}  # owner without a session -> since when
        self.may_tie = False
        self.must_untie = False

    def look(self, now: float, owner: str, leases: Mapping[str, Lease], sessions: Mapping[str, Session]) -> None:
        """Take in a listing.

        Args:
            now: Seconds of this host's clock.
            owner: This host.
            leases: All leases that can be read.
            sessions: By pod.
        """
        alive = {pod for pod, session in sessions.items() if session.alive}
        others = {lease.owner for lease in leases.values() if lease.leased and lease.owner} - {owner}
        self._since = {name: self._since.get(name, now) for name in others if pod_of(name) not in alive}
        self.may_tie = not self.shared and not self._since
        self.must_untie = self.shared or any(now - since >= self._patience for since in self._since.values())
