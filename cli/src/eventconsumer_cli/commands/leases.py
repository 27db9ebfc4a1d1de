"""`leases`: who holds which partition, and where its checkpoint is, as storage has it."""

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session


def leases(session: Session, name: ConsumerName = None, new_pod: NewPod = False) -> None:
    """Show the leases and checkpoints in storage.

    Runs in a host pod, or in a temporary pod if no host runs.
    """
    answer(session, name, ["leases"], new_pod=new_pod)
