"""The program `kubectl_complete-eventconsumer`: kubectl runs it with the words typed so far and shows what it prints.

kubectl (1.26 and newer) expects a suggestion a line, a tab and a description after it, and `:` with a number at the
end: 4 says that file names are no answer.
"""

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Sequence

import typer
from typer._completion_classes import completion_init

from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.main import app
from eventconsumer_cli.session import Options, Session, kubernetes
from eventconsumer_cli.text import PROGRAM

_VARIABLE = "_KUBECTL_EVENTCONSUMER_COMPLETE"


def main(words: Sequence[str] | None = None, *, connect: Callable[[Options], Cluster] = kubernetes) -> int:
    """Print suggestions for the last word.

    Args:
        words: Those after the plugin's name, the last of them perhaps empty; those of the command line where None.
        connect: Gives the cluster.
    """
    # fish's protocol is the one that prints a line each with a description.
    os.environ |= {
        _VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join(["kubectl-eventconsumer", *(sys.argv[1:] if words is None else words)]),
    }
    completion_init()
    with contextlib.suppress(SystemExit):
        typer.main.get_command(app).main([], prog_name=PROGRAM, complete_var=_VARIABLE, obj=Session(connect=connect))
    print(":4")  # noqa: T201 - the answer
    return 0
