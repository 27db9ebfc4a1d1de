"""`lag`: how far files are behind the hub, asked of the hub itself."""

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session


def lag(session: Session, name: ConsumerName = None, new_pod: NewPod = False) -> None:
    """Query the Event Hub for the lag of each partition.

    Asked by a host pod, or by a pod made for it where no host runs; `status` tells what hosts reported last.
    """
    answer(session, name, ["lag"], new_pod=new_pod)
