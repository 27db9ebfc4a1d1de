"""`leases`: owners and checkpoints of partitions, read from storage."""

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session


def leases(session: Session, name: ConsumerName = None, new_pod: NewPod = False) -> None:
    """Show the leases and checkpoints in storage.

    Runs in a host pod, or in a temporary pod if no host runs.
    """
    answer(session, name, ["leases"], new_pod=new_pod)
