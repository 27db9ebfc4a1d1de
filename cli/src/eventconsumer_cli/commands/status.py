"""`status`: how consumers are."""

from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import table
from eventconsumer_cli.session import Session


def status(session: Session, name: ConsumerName = None) -> None:
    """Show how a consumer is; without a name, one line for each."""
    found = session.consumers(name)
    session.out.show(found, lambda: [table(["name"], [[each["metadata"]["name"]] for each in found])])
