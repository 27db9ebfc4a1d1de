"""The program `kubectl_complete-eventconsumer`: kubectl runs it with the words typed so far and shows what it prints.

kubectl (1.26 and newer) expects one suggestion per line, followed by a tab and a description, and `:` with a number at
the end: 4 disables the completion of file names.
"""

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Sequence

import typer
from typer._completion_classes import completion_init

from eventconsumer_api.shared.terminal import guarded
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.main import app
from eventconsumer_cli.session import Options, Session, kubernetes
from eventconsumer_cli.text import PROGRAM

_VARIABLE = "_KUBECTL_EVENTCONSUMER_COMPLETE"


@guarded()
def main(words: Sequence[str] | None = None, *, connect: Callable[[Options], Cluster] = kubernetes) -> int:
    """Print suggestions for the last word.

    Args:
        words: Words after the plugin's name, the last of them may be empty; None: those of the command line.
        connect: Returns the cluster.
    """
    # fish's protocol prints one line with a description for each suggestion.
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
