"""The commands that the program of the host image and the kubectl plugin both have, each declared once.

Both programs build their parsers from these declarations. The plugin also builds from them the arguments with which it
runs the other program, `eventconsumer`, in a pod.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

Values = Mapping[str, Any]
"""The values of a command's options by their variables, as parsed."""


class PrintFormat(StrEnum):
    """Output formats of the program."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class OldProgram(StrEnum):
    """The programs whose positions `migrate` takes over."""

    EVENT_PROCESSOR_HOST = "event-processor-host"
    AZURE_SDK = "azure-sdk"


class Area(StrEnum):
    """Headings of commands in the help."""

    LOOK = "Look"
    STEER = "Steer"
    CHECK = "Check"
    START = "Start"


class Stream(StrEnum):
    """What the plugin does with a file of the user's machine: it passes it to the program, or writes its answer."""

    STDIN = "/dev/stdin"
    STDOUT = "/dev/stdout"


@dataclass(frozen=True)
class Option:
    """An option.

    Attributes:
        flag: Its long name, `--name`; `--name/--no-name` for a switch that is on by default.
        help: Its meaning.
        kind: The type of its value; bool: a switch.
        default: Its value if it is not given; None: no value.
        short: Its short name.
        required: Whether it must be given.
        many: Whether it may be repeated; the value is a list.
        least: The least number.
        variable: Name of the value in code; empty: the flag's.
        environment: Variable that gives the value if the option does not.
        stream: For the name of a file: what the plugin does with the file; None: it has no such file.
    """

    flag: str
    help: str
    kind: type = str
    default: object = None
    short: str = ""
    required: bool = False
    many: bool = False
    least: int | None = None
    variable: str = ""
    environment: str | None = None
    stream: Stream | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names for a parser."""
        return tuple(filter(None, (self.flag, self.short)))

    @property
    def name(self) -> str:
        """Name of its value in code."""
        return self.variable or self.flag.lstrip("-").replace("-", "_")

    def parameter(self, made: object) -> inspect.Parameter:
        """A parameter of a function, for parsers that read signatures; `made` describes the option to the parser."""
        default = [] if self.many else self.default
        kind: Any = list[self.kind] if self.many else self.kind  # type: ignore[name-defined]
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if self.required else default,
            annotation=Annotated[kind | None if default is None and not self.required else kind, made],
        )

    def words(self, value: Any) -> list[str]:
        """The arguments that pass a value to the program; none for the default."""
        if value in (self.default, []):
            return []
        if self.stream is not None:
            return [self.flag, self.stream] if self.stream is Stream.STDIN else []
        if self.kind is bool:
            return [self.flag]
        return [word for each in (value if self.many else [value]) for word in (self.flag, str(each))]


def flag(name: str, text: str) -> Option:
    """A switch, off by default."""
    return Option(name, text, bool, False)


OUTPUT = Option("--output", "Output format: a table, or one document.", PrintFormat, PrintFormat.TABLE, "-o")
YES = Option(
    "--yes",
    "Carry out the plan. Without it kubectl eventconsumer asks first, and eventconsumer only prints the plan.",
    bool,
    False,
    "-y",
)


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        path: The name of its group, if it has one, and its own.
        area: Its heading in the help.
        summary: Its help.
        codes: Its exit codes, with their meanings.
        own: Its options, without `--output` and `--yes`.
        question: What the plugin asks after it has shown the plan, with the consumer's name and the options as fields;
            empty: the command changes nothing.
        mistake: The contradiction in the values of the options; empty: none.
        in_plugin: Whether users of the plugin can run it.
    """

    path: str
    area: Area
    summary: str
    codes: Mapping[int, str]
    own: tuple[Option, ...] = ()
    question: str = ""
    mistake: Callable[[Values], str] = lambda _: ""
    in_plugin: bool = True

    @property
    def group(self) -> str:
        """The name of its group; empty: none."""
        return self.path.rpartition(" ")[0]

    @property
    def name(self) -> str:
        """Its name in its group."""
        return self.path.rpartition(" ")[2]

    @property
    def changes(self) -> bool:
        """Whether it changes data: then it needs `--yes`, or a confirmation."""
        return bool(self.question)

    @property
    def options(self) -> tuple[Option, ...]:
        """Its options in both programs."""
        return (*self.own, *((YES,) if self.changes else ()))

    @property
    def help(self) -> str:
        """Its help, with its exit codes."""
        codes = ", ".join(f"{code} {self.codes[code]}" for code in sorted(self.codes))
        return f"{self.summary}\n\nExit code: {codes}."

    def file(self, stream: Stream) -> Option | None:
        """Its option for a file of the user's machine; None: it has none."""
        return next((option for option in self.own if option.stream is stream), None)

    def arguments(self, **values: object) -> list[str]:
        """The arguments of the program that run it.

        Args:
            values: Values of options by their variables.

        Raises:
            KeyError: It has no such option.
        """
        options = {option.name: option for option in (*self.options, OUTPUT)}
        given = {name: options[name].words(value) for name, value in values.items()}
        return [*self.path.split(), *(word for name in options for word in given.get(name, ()))]


def function(
    run: Callable[..., object], parameters: Iterable[inspect.Parameter], text: str | None
) -> Callable[..., None]:
    """A function that calls `run`, with a signature and a docstring, for parsers that read these."""

    def called(**values: object) -> None:
        run(**values)

    signature = inspect.Signature(list(parameters))
    called.__signature__ = signature  # type: ignore[attr-defined]
    called.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    called.__doc__ = text
    return called


def _place(values: Values) -> str:
    if (values["sequence_number"] is None) == (values["offset"] is None):
        return "specify the position: exactly one of --sequence-number and --offset"
    return ""


def _letters(values: Values) -> str:
    if values["every"] is bool(values["partition"]):
        return "select dead letters: with --partition, or all of them with --all"
    if values["sequence_number"] and len(values["partition"]) != 1:
        return "--sequence-number needs exactly one --partition: each partition has its own numbers"
    return ""


_READ = {0: "success", 1: "none found", 3: "not readable"}
_CHANGE = {0: "done (a plan: it is possible)", 2: "refused", 3: "failed"}
_PLAN = "Shows a plan; a confirmation, or --yes, carries it out."
_BACKUP = "A backup of the old checkpoints stays in storage; the command prints its name."
_PARTITION = Option("--partition", "Partition id.", short="-p", required=True)
_PARTITIONS = Option("--partition", "Only this partition; may be repeated.", short="-p", many=True)
_SINCE = Option("--since", "Committed since: ISO time, or an age such as 7d, 12h or 30m.")
_NUMBERS = Option("--sequence-number", "Only this event of one partition; may be repeated.", int, many=True, least=0)
_LETTERS = (_PARTITIONS, _NUMBERS, Option("--all", "All dead letters.", bool, False, variable="every"))
_ALLOW = (
    flag(
        "--allow-behind",
        "Allow a position before the end of committed files or of handled events: events are handled again, but not "
        "written again.",
    ),
    flag("--allow-skip", "Allow to skip events that are in no file: only with a handler or shared leases."),
)

AUDIT = Command(
    "audit",
    Area.CHECK,
    "Check that every event is in exactly one file. Read-only.\n\nWith many files, a pod of its own (--new-pod of "
    "kubectl eventconsumer) keeps the load off the hosts. With --deep, the plugin always uses one: a host has no "
    "memory for the files.",
    {0: "clean", 1: "explained gaps", 2: "a violation", 3: "not readable"},
    (flag("--deep", "Read every file: hashes and rows."), flag("--hub", "Also query the hub for the lag.")),
)
CERTIFY = Command(
    "certify",
    Area.CHECK,
    "Check whether the real Event Hub and storage accounts behave as hosts assume.\n\nDoes not disturb the consumer, "
    "and removes all that it creates.",
    {
        0: "all assumptions hold that were checked",
        1: "one does not hold",
        2: "not carried out or not decided",
        3: "a wrong option",
    },
    (
        Option("--consumer-group", "A consumer group for the checks alone; refused if it has readers.", required=True),
        flag("--send", "Also checks that publish a few events, which the consumer reads. They stay until they expire."),
        flag("--slow", "Also checks that wait for minutes."),
    ),
)
CHECK = Command(
    "check",
    Area.CHECK,
    "Check whether hosts can reach the hub and the storage account, and may write there.",
    {0: "all checks passed", 2: "a check failed", 3: "no configuration"},
    (Option("--config-json", "HostConfig to check instead, as JSON; - reads it from stdin.", stream=Stream.STDIN),),
    in_plugin=False,  # `doctor` and `init` run it
)

GROUPS = {
    "columns": "Columns that hosts make of bodies (spec.sink.body).",
    "checkpoint": "Show, move, save and restore checkpoints. Suspend the consumer before you change them.",
    "hub": "Continue after a forced failover, with a new Event Hub of that name, or at another starting position.",
    "deadletters": "Events that the handler could not process: see them, pass them to the handler again, or drop them.",
}
COMMANDS = (
    Command(
        "leases", Area.LOOK, "Show owner and checkpoint of each partition, as recorded in storage. Read-only.", _READ
    ),
    Command(
        "files",
        Area.LOOK,
        "List the drained files, newest last, with event counts and sizes. Read-only.",
        _READ,
        (
            _PARTITIONS,
            _SINCE,
            Option("--limit", "Number of newest files; 0: all.", int, 100, least=0),
            flag("--gaps", "Only files that record lost events, with their sequence numbers."),
        ),
    ),
    Command(
        "lag",
        Area.LOOK,
        "Query the Event Hub for the number of events of each partition that are in no file. Read-only.",
        {0: "success", 3: "hub or storage does not answer"},
    ),
    Command(
        "columns infer",
        Area.LOOK,
        "Propose spec.sink.body for the events in the newest file of each partition. Read-only.\n\nThe types are the "
        "narrowest ones that take all values exactly. Shows how many events fit, and which do not; never a value.",
        _READ,
        (_PARTITIONS, Option("--events", "Number of events to read.", int, 1000, least=1)),
    ),
    Command(
        "errors",
        Area.LOOK,
        "List the events in the newest files whose bodies do not fit the columns of spec.sink.body, with the errors. "
        "Read-only.\n\nReads no bodies, and shows no value of one.",
        _READ,
        (
            _PARTITIONS,
            _SINCE,
            Option("--files", "Number of newest files to read.", int, 50, least=1),
            Option("--limit", "Number of newest events to list; all are counted.", int, 100, least=1),
        ),
    ),
    AUDIT,
    CERTIFY,
    CHECK,
    Command(
        "migrate",
        Area.START,
        "Take over the checkpoints of an EventProcessorHost or of an Azure SDK's event processor, without loss of "
        f"events.\n\nStop the old program and suspend the consumer first. {_PLAN}",
        _CHANGE | {1: "no checkpoints found"},
        (
            Option(
                "--from",
                "Layout of the old checkpoints.",
                OldProgram,
                OldProgram.EVENT_PROCESSOR_HOST,
                variable="program",
            ),
            Option("--container", "Container of the old leases or checkpoints.", required=True),
            Option("--prefix", "Prefix of their names.", default=""),
            Option("--consumer-group", "Consumer group of the old program. Default: the consumer's own."),
            Option(
                "--connection-string-file",
                "File with the old storage account's connection string. Default: the account of spec.checkpointStore.",
                stream=Stream.STDIN,
            ),
        ),
        "Write these checkpoints for {consumer}?",
    ),
    Command(
        "adopt",
        Area.START,
        "Continue the files of another EventConsumer. spec.sink of this EventConsumer names the files.\n\nSuspend or "
        f"delete the other EventConsumer first: refused while its hosts run. {_PLAN}",
        _CHANGE | {1: "no files found"},
        question="Make these the files and leases of {consumer}?",
    ),
    Command(
        "retention",
        Area.STEER,
        "Remove old files by spec.sink.retention now, as the leading host does every ten minutes.\n\nIt may run beside "
        "hosts.",
        {0: "done or nothing to do", 1: "no files yet", 3: "failed"},
        (flag("--once", "Remove the files that are due now, and end."),),
        in_plugin=False,  # the leading host and the probe do it
    ),
    Command("checkpoint show", Area.STEER, "Show all checkpoints and the end of the files. Read-only.", _READ),
    Command(
        "checkpoint set",
        Area.STEER,
        f"Move one partition's checkpoint; refused while a host holds the partition.\n\n{_PLAN} {_BACKUP}",
        _CHANGE,
        (
            _PARTITION,
            Option("--sequence-number", "Continue after the event with this sequence number.", int, least=-1),
            Option("--offset", "Continue after the event with this offset."),
            *_ALLOW,
        ),
        "Move the checkpoint of partition {partition} of {consumer}?",
        _place,
    ),
    Command(
        "checkpoint export",
        Area.STEER,
        "Save all checkpoints as one JSON document, for `checkpoint import`. Read-only.",
        _READ,
        (Option("--file", "Output file; - for stdout.", default="-", short="-f", stream=Stream.STDOUT),),
    ),
    Command(
        "checkpoint import",
        Area.STEER,
        "Restore checkpoints from an export or a backup, all or none; refused while hosts hold partitions."
        f"\n\n{_PLAN} {_BACKUP}",
        _CHANGE,
        (Option("--file", "Input file; - for stdin.", short="-f", required=True, stream=Stream.STDIN), *_ALLOW),
        "Write these checkpoints for {consumer}?",
    ),
    Command(
        "hub accept",
        Area.STEER,
        "Continue with the hub's present events after the condition HubDiverged: the hub lost events that are in "
        "files.\n\nCompares files and hub in each partition, and starts a new segment of the files there. Existing "
        "files are not changed and their events are not read again. Suspend the consumer first: the comparison needs "
        f"partitions without a reader. {_PLAN}",
        _CHANGE | {1: "nothing to accept"},
        question="Continue {consumer} with the present events of its Event Hub?",
    ),
    Command(
        "hub reposition",
        Area.STEER,
        "Apply a changed spec.startingPosition to partitions without a file; the others continue where they are.\n\n"
        "Starts a new segment of the files. Change the spec and suspend the consumer first: partitions must have no "
        f"reader. {_PLAN}",
        _CHANGE | {1: "nothing to change"},
        question="Begin partitions of {consumer} without a file there?",
    ),
    Command(
        "deadletters list",
        Area.STEER,
        "List dead letters with error and attempts, by partition and sequence number. Read-only.",
        _READ,
        (_PARTITIONS, Option("--limit", "Number of newest dead letters; 0: all.", int, 100, least=0)),
    ),
    Command(
        "deadletters show",
        Area.STEER,
        "Show one dead letter: the event with its body, the error with its traceback, and the attempts. Read-only.",
        _READ | {1: "not found"},
        (_PARTITION, Option("--sequence-number", "Of the event.", int, required=True, least=0)),
    ),
    Command(
        "deadletters redrive",
        Area.STEER,
        "Pass dead letters to the handler again, after you have corrected it.\n\nWrites a request for each letter. The "
        "host that owns the partition passes the event to the handler, between batches. If the handler succeeds, the "
        "dead letter is removed; if it fails again, the letter stays with the new error. Refused with handlerMode "
        f"Transform. {_PLAN}",
        _CHANGE | {1: "none found"},
        _LETTERS,
        "Pass these dead letters of {consumer} to its handler again?",
        _letters,
    ),
    Command(
        "deadletters drop",
        Area.STEER,
        "Remove dead letters for ever. With handlerMode Replace or Transform, these events are in no file either.\n\n"
        f"A record of their sequence numbers stays in storage; the command prints its name. {_PLAN}",
        _CHANGE | {1: "none found"},
        _LETTERS,
        "Remove these dead letters of {consumer} for ever?",
        _letters,
    ),
)
