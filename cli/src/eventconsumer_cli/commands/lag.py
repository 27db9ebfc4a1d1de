"""`lag`: events of the hub that are in no file, queried from the hub."""

from eventconsumer_cli.hosttool import NewPod, answer
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session


def lag(session: Session, name: ConsumerName = None, new_pod: NewPod = False) -> None:
    """Query the Event Hub for the lag of each partition.

    Runs in a host pod, or in a temporary pod if no host runs; `status` shows the last report of the hosts.
    """
    answer(session, name, ["lag"], new_pod=new_pod)
