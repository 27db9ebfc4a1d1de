"""`adopt`: a consumer continues the files of another one."""

from eventconsumer_cli.errors import ExitCode
from eventconsumer_cli.hosttool import NewPod, change, end, toolbox
from eventconsumer_cli.kube.kinds import name_of
from eventconsumer_cli.options import ConsumerName, Yes
from eventconsumer_cli.session import Session


def adopt(session: Session, name: ConsumerName = None, *, yes: Yes = False, new_pod: NewPod = False) -> None:
    """Continue the files of another consumer. spec.sink of this consumer names the files.

    Shows the records that change, asks for confirmation and changes them. Suspend or delete the other consumer first:
    the command is refused while its hosts run.
    """
    consumer = session.consumer(name)
    with toolbox(session).at(consumer, new_pod=new_pod) as tool:
        question = f"Make these the files and leases of {name_of(consumer)}?"
        ended = change(session, tool, ["adopt"], question=question, yes=yes)
    if ended.exit_code == ExitCode.REFUSED:
        session.out.note("`kubectl eventconsumer doctor` names the consumers that share files, leases or an output")
    end(ended)
