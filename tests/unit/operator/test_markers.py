"""No text of a spec is read as anything but text: of all string fields, in all manifests, properties for every place.

Each field gets the most hostile value that the schema and the operator accept. `PLACES` lists every place of a manifest
where a text of a user may be, and what may be in it; a place that is not listed is a failure. So a new field, and a new
use of an old one, need a decision here.
"""

import contextlib
import copy
import io
import itertools
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import structlog
import yarl

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.labels import BATCH_MANIFEST_ENV
from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.logs import configure
from eventconsumer_api.shared.terminal import clean_line
from eventconsumer_cli.commands.status import details, overview
from eventconsumer_cli.kube.reports import HostPods
from eventconsumer_cli.view import Look
from eventconsumer_operator.conditions.events import changes, event
from eventconsumer_operator.conditions.status import make_status, wire
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import Plan, make_plan
from tests.support.expansion import expand
from tests.support.expansion import names as looked_up
from tests.unit.operator import markers
from tests.unit.operator.markers import (
    HOSTILE,
    RULES,
    WORLDS,
    Field,
    LauncherWorld,
    MarkedText,
    allowed,
    fields,
    keys,
    manifests,
    observe,
    places,
    planned,
    schema_of_spec,
    skeleton,
)
from tests.unit.operator.worlds import NOW

Check = Callable[[str], str | None]
"""What is wrong with a text in a place; None: nothing."""


# --- what may be in a place ------------------------------------------------------------------------------------------


def matching(pattern: str, limit: int = 4096) -> Check:
    """Text of a form that needs no escape where it is."""
    form = re.compile(pattern, re.ASCII)
    return lambda text: None if form.fullmatch(text) and len(text) <= limit else f"not of the form {pattern}"


def anything(_: str) -> None:
    """Text that nothing interprets: JSON, or YAML, of a whole manifest, keeps it as it is."""


def inert(text: str) -> str | None:
    """Text that the kubelet expands: it looks up no variable."""
    names = looked_up(text)
    return f"the kubelet looks up {', '.join(names)}" if names else None


def property_value(text: str) -> str | None:
    """The value of a Spark property: Spark copies it into variables of pods, which are expanded, and resolves ${}."""
    return next((f"contains {each}" for each in ("${", "$(", "$$") if each in text), None)


def java_options(text: str) -> str | None:
    """Options of a JVM: Spark splits them at white space outside quotes (Utils.splitCommandString)."""
    for option in text.split(" "):
        if not re.fullmatch(
            r"-XX:[A-Za-z0-9+=]+|-Dhttps?\.(proxyHost|proxyPort|nonProxyHosts)=[A-Za-z0-9.*|-]+", option
        ):
            return f"{option!r} is an option"
    return None


def java_option(text: str) -> str | None:
    """One option of a JVM, in a variable."""
    name, equals, value = text.removeprefix("-D").partition("=")
    if equals and name.startswith("spark.") and text.startswith("-D"):
        return inert(text) or property_of(name)(value)
    return inert(text) or ("several options" if " " in text else java_options(text))


def url(*schemes: str, user: bool = False) -> Check:
    """A URL whose parts are the same for all parsers, and which no client changes before it sends a request.

    Args:
        *schemes: Its possible schemes.
        user: Whether it has the container of ABFS before its host.
    """

    def check(text: str) -> str | None:
        if not re.fullmatch(r"[!-~]+", text):
            return "characters that parsers remove or encode"
        parts, other = urlsplit(text), yarl.URL(text, encoded=True)
        if parts.scheme not in schemes or not re.fullmatch(r"[A-Za-z0-9.-]+", parts.hostname or ""):
            return "another scheme or host"
        if (parts.hostname, parts.port, parts.username) != (other.host, other.explicit_port, other.user):
            return f"two readings: {parts.hostname}, {other.host}"
        if parts.query or parts.fragment or parts.password or (parts.username is not None) is not user:
            return "a query, a fragment, or a user"
        if yarl.URL(text).raw_path != (parts.path or "/"):
            return f"a client requests {yarl.URL(text).raw_path}"
        return path(parts.path.removeprefix("/"))

    return check


def path(text: str) -> str | None:
    """The name of a blob or folder: segments that no client resolves or decodes."""
    for segment in text.rstrip("/").split("/"):
        if segment in {".", ".."} or not re.fullmatch(r"[A-Za-z0-9_.=~$-]*", segment, re.ASCII):
            return f"segment {segment!r}"
    return "an empty segment" if "//" in text else None


def listed(check: Check, separator: str) -> Check:
    """A list in one text."""
    return lambda text: next(filter(None, map(check, text.split(separator))), None)


def argument(text: str) -> str | None:
    """An argument of a driver: a property, the program, or an argument of the program."""
    if problem := inert(text):
        return problem
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        return None
    return property_of(name)(value)


def property_of(name: str) -> Check:
    """What may be in a property; those with a meaning of their own are listed."""
    return PROPERTIES.get(name, property_value)


DNS_SUBDOMAIN = matching(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", 253)
QUALIFIED_NAME = matching(r"([a-z0-9.-]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*", 317)
LABEL_VALUE = matching(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", 63)
KEY = matching(r"[-._a-zA-Z0-9]+", 253)
SEGMENT = matching(r"[A-Za-z0-9$_][A-Za-z0-9$._-]*")
HOST = matching(r"\.?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", 253)
QUANTITY = matching(r"[0-9]+(\.[0-9]+)?[A-Za-z]{0,2}")
TIME = matching(r"[0-9T:.+-]+Z?")
# Source of the grammar: github.com/distribution/reference
IMAGE = matching(
    r"(([A-Za-z0-9.-]+|\[[A-Fa-f0-9:]+\])(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@[A-Za-z0-9_.+-]+:[0-9A-Fa-f]{32,})?"
)
PROGRAM = matching(r"(local://)?/app(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+\.py")
CLIENT_ID = matching(r"[A-Za-z0-9._-]+")
OFFSET = matching(r"[A-Za-z0-9@:._/+=-]+")  # between the quotes of a selector of AMQP
PROPERTIES: dict[str, Check] = {
    "spark.kubernetes.container.image": IMAGE,
    **{f"spark.{role}.extraJavaOptions": java_options for role in ("driver", "executor")},
    **{f"spark.{role}.memory": QUANTITY for role in ("driver", "executor")},
    **{
        f"spark.kubernetes.{role}.{size}.cores": QUANTITY
        for role in ("driver", "executor")
        for size in ("request", "limit")
    },
}
STORAGE = url("https", "http")
OUTPUT = url("abfs", "abfss", user=True)

PLACES: tuple[tuple[str, Check], ...] = (
    # names and rules of Kubernetes' objects
    (r"Job\.metadata\.name", matching(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)),
    (r"NetworkPolicy\.spec\.egress\[\]\.to\[\]\.ipBlock\.(cidr|except\[\])", matching(r"[0-9a-f:.]+/[0-9]+")),
    (r"NetworkPolicy\.spec\.egress\[\]\.to\[\]\.podSelector\.matchLabels\{\}", QUALIFIED_NAME),
    (r"NetworkPolicy\.spec\.egress\[\]\.to\[\]\.podSelector\.matchLabels[.\[].+", LABEL_VALUE),
    (r"NetworkPolicy\.spec\.egress\[\]\.to\[\]\.namespaceSelector\.matchExpressions\[\]\.values\[\]", DNS_SUBDOMAIN),
    # pods
    (r"pod\.metadata\.labels\{\}", QUALIFIED_NAME),
    (r"pod\.metadata\.labels[.\[].+", LABEL_VALUE),
    (r"pod\.metadata\.annotations\{\}", QUALIFIED_NAME),
    (r"pod\.metadata\.annotations[.\[].+", anything),
    (r"pod\.spec\.nodeSelector\{\}", QUALIFIED_NAME),
    (r"pod\.spec\.nodeSelector[.\[].+", LABEL_VALUE),
    (r"pod\.spec\.tolerations\[\]\.key", QUALIFIED_NAME),
    (r"pod\.spec\.tolerations\[\]\.value", LABEL_VALUE),
    (r"pod\.spec\.affinity\..*\.(key|topologyKey|matchLabels\{\})", QUALIFIED_NAME),
    (r"pod\.spec\.affinity\..*\.(values\[\]|matchLabels[.\[].+)", LABEL_VALUE),
    (r"pod\.spec\.priorityClassName", DNS_SUBDOMAIN),
    (r"pod\.spec\.volumes\[\]\.name", matching(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)),
    (r"pod\.spec\.volumes\[\]\.(configMap\.name|secret\.secretName)", DNS_SUBDOMAIN),
    (r"pod\.spec\.volumes\[\]\.(configMap|secret)\.items\[\]\.key", KEY),
    (r"pod\.spec\.volumes\[\]\.(configMap|secret)\.items\[\]\.path", matching(r"[A-Za-z0-9_][-._A-Za-z0-9]*", 253)),
    (r"pod\.spec\.volumes\[\]\.emptyDir\.sizeLimit", QUANTITY),
    (r"pod\.spec\.volumes\[\]\.ephemeral\.volumeClaimTemplate\.metadata\.labels\{\}", QUALIFIED_NAME),
    (r"pod\.spec\.volumes\[\]\.ephemeral\.volumeClaimTemplate\.metadata\.labels[.\[].+", LABEL_VALUE),
    (r"pod\.spec\.volumes\[\]\.ephemeral\.volumeClaimTemplate\.spec\.storageClassName", DNS_SUBDOMAIN),
    (r"pod\.spec\.volumes\[\]\.ephemeral\.volumeClaimTemplate\.spec\.resources\.requests\.storage", QUANTITY),
    (r"pod\.spec\.containers\[\]\.image", IMAGE),
    (r"pod\.spec\.containers\[\]\.resources\.(requests|limits)\.[a-z-]+", QUANTITY),
    (r"pod\.spec\.containers\[\]\.volumeMounts\[\]\.name", matching(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)),
    (r"pod\.spec\.containers\[\]\.volumeMounts\[\]\.mountPath", matching(r"/(config|secrets|mnt)/[a-z0-9-]+")),
    (r"pod\.spec\.containers\[\]\.args\[\]", argument),
    # variables: those of users, ours as JSON, and ours as URLs
    (r"pod\.spec\.containers\[\]\.env\[\*\]\.name", matching(r"[A-Za-z_][A-Za-z0-9_]*")),
    (r"pod\.spec\.containers\[\]\.envFrom\[\]\.prefix", matching(r"[A-Za-z_][A-Za-z0-9_]*")),
    (r"pod\.spec\.containers\[\]\.env\[(APP_A|\*)\]\.value", inert),
    (r"pod\.spec\.containers\[\]\.env\[(APP_A|\*)\]\.valueFrom\.(configMap|secret)KeyRef\.name", DNS_SUBDOMAIN),
    (r"pod\.spec\.containers\[\]\.env\[(APP_A|\*)\]\.valueFrom\.(configMap|secret)KeyRef\.key", KEY),
    (r"pod\.spec\.containers\[\]\.envFrom\[\]\.(configMap|secret)Ref\.name", DNS_SUBDOMAIN),
    (r"pod\.spec\.containers\[\]\.env\[EVENTCONSUMER_(BATCH_JOB|CONFIG_JSON)\]\.value", inert),
    (rf"pod\.spec\.containers\[\]\.env\[{BATCH_MANIFEST_ENV}\]\.value", OUTPUT),
    (r"pod\.spec\.containers\[\]\.env\[HTTPS?_PROXY\]\.value", url("http")),
    (r"pod\.spec\.containers\[\]\.env\[NO_PROXY\]\.value", listed(HOST, ",")),
    (r"ConfigMap\.data\[config\.json\]", anything),
    # applications of other operators
    (r"SparkApplication\.spec\.(arguments|driverArgs)\[\]", inert),  # an argument of the driver's pod
    (r"SparkApplication\.spec\.(driver|executor)\.(coreRequest|coreLimit|memory)", QUANTITY),
    (r"SparkApplication\.spec\.image", IMAGE),
    (r"SparkApplication\.spec\.(mainApplicationFile|pyFiles)", PROGRAM),
    *((rf"SparkApplication\.spec\.sparkConf\[{re.escape(name)}\]", check) for name, check in PROPERTIES.items()),
    (r"SparkApplication\.spec\.sparkConf\[.+\]", property_value),
    # configuration of hosts, and input of drivers
    (r"(config|job)\..*\.(secret|basicSecretRef\.name)", DNS_SUBDOMAIN),
    (r"(config|job)\..*\.(credential|basicSecretRef)\.key|job\.registry\.key", KEY),
    (r"(config|job)\..*\.clientId", CLIENT_ID),
    (r"(config|job)\..*\.storageAccountUrl", STORAGE),
    (r"(config|job)\..*\.storageApiVersion", matching(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    (r"(config|job)\..*\.container", SEGMENT),
    (r"(config|job)\..*\.prefix", path),
    (r"(config\.replay|job\.reprocess)\.name", SEGMENT),
    (r"config\.eventHub\.fullyQualifiedNamespace", HOST),
    (r"config\.eventHub\.(name|consumerGroup)", SEGMENT),  # of AMQP addresses, and of names of leases
    (r"config\.startingPosition(\.partitions\..+)?\.offset", OFFSET),
    (r"config\.startingPosition(\.partitions\..+)?\.enqueuedTime", TIME),
    (r"config\.startingPosition\.partitions\{\}", SEGMENT),
    (r"config\.replay\.partitions\[\]", SEGMENT),
    (r"config\.replay\.to", TIME),
    (r"config\.processing\.handler", matching(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")),
    (r"config\.processing\.image", IMAGE),
    (r"(config|job)\.body\.columns\[\]\.name", matching(r"[A-Za-z][A-Za-z0-9_]*", 128)),
    (
        r"(config|job)\.body\.columns\[\]\.type",
        matching(r"[A-Za-z0-9_.@$:/#+`<>(), -]+"),
    ),  # parsed, by a parser of our own
    (r"(config|job)\.body\.columns\[\]\.path", matching(r"\$[ -~]+")),  # likewise
    (r"config\.notices\.url", STORAGE),
    (r"config\.notices\.header", matching(r"[A-Za-z][A-Za-z0-9-]*", 64)),
    (r"config\.proxy\.url", url("http")),
    (r"config\.proxy\.noProxy\[\]", HOST),
    (r"config\.batches\.trigger\.schedule", matching(r"[0-9A-Za-z*/,#? -]+", 100)),
    (r"job\.application", matching(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)),
    (r"job\.output\.path", OUTPUT),
    (r"job\.output\.body\.registry\.url", STORAGE),
    (r"job\.output\.body\.(schema|times\{\})", anything),  # parsed as JSON, by the driver
)
SPARK_PLACES: tuple[tuple[str, Check], ...] = (
    # One option of Java each, as the entrypoint of the image passes them on.
    (r"pod\.spec\.containers\[\]\.env\[SPARK_JAVA_OPT_\d+\]\.value", java_option),
    (r"pod\.spec\.containers\[\]\.env\[SPARK_EXECUTOR_(MEMORY|CORES)\]\.value", QUANTITY),
)
"""The same in pods that Spark makes."""
EXACT = re.compile(
    r"pod\.metadata\.annotations\[shop.+|pod\.spec\.containers\[\]\.(args\[\]|env\[(APP_A|\*)\]\.value)"
    r"|SparkApplication\.spec\.(arguments|driverArgs)\[\]|SparkApplication\.spec\.sparkConf\[spark\.(sql|log).+"
    r"|job\.output\.body\.schema"
)
"""Places of which the process gets exactly the text of the user, and perhaps more."""
EXPANDED = re.compile(r"pod\.spec\.containers\[\]\.(args|env)\[.*|SparkApplication\.spec\.(arguments|driverArgs)\[\]")


def form_problem(place: MarkedText) -> str | None:
    """What is wrong with a text in a place, whatever the user wrote."""
    check = next((check for pattern, check in (*PLACES, *SPARK_PLACES) if re.fullmatch(pattern, place.path)), None)
    if check is None:
        return f"{place.path}: no place for a text of a user: {place.text!r}"
    problem = check(place.text)
    return f"{place.path}: {problem}: {place.text!r}" if problem else None


def problems_of(place: MarkedText, field: Field, value: str) -> Iterator[str]:
    """What is wrong with a text in a place, for what the user wrote."""
    if problem := form_problem(place):
        yield problem
    if EXACT.fullmatch(place.path) and field.steps[-1] != "{}":
        reached = expand(place.text) if EXPANDED.fullmatch(place.path) else place.text
        if value not in reached and "extraJavaOptions" not in reached:
            yield f"{place.path}: not the text of the user: {reached!r}"


def problems(field: Field, value: str, made: tuple[Manifest, ...], tame: tuple[Manifest, ...]) -> list[str]:
    """What is wrong with manifests with a hostile value in a field; `tame`: those with a tame one."""
    mark = field.seed[1]
    found = [
        f"{manifest['kind']} {problem}"
        for manifest in made
        for place in places(manifest, mark)
        for problem in problems_of(place, field, value)
    ]
    # A policy has the port of an endpoint, and what is left out of a range of addresses.
    one, other = ([each for each in parts if each["kind"] != "NetworkPolicy"] for parts in (made, tame))
    if skeleton(one, mark) != skeleton(other, mark):
        found.append("the manifests have other parts than with a tame value")
    return found


# --- the property ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A plan with a hostile value in one field.

    Attributes:
        world: What the operator finds.
        value: The value.
        made: The manifests.
        tame: The manifests with a tame value.
    """

    world: LauncherWorld
    value: str
    made: tuple[Manifest, ...]
    tame: tuple[Manifest, ...]


@dataclass(frozen=True)
class Tame:
    """A plan with a tame value in one field, in which the field has an effect.

    Attributes:
        world: What the operator finds.
        key: The key of the field in its map.
        made: The manifests.
    """

    world: LauncherWorld
    key: str
    made: tuple[Manifest, ...]


def tames(field: Field) -> Iterator[Tame]:
    """The plans with a tame value that is accepted."""
    for world, key in itertools.product(WORLDS, keys(field)):
        try:
            made = manifests(planned(world, field, field.seed[0], key))
        except SpecError:
            continue
        own = made if world.native else [each for each in made if each["kind"] == "SparkApplication"]
        if any(True for manifest in own for _ in places(manifest, field.seed[1])):
            yield Tame(world, key, made)  # else the rest is as with the native launcher


def cases(field: Field) -> Iterator[Case]:
    """The plans with the most hostile values that are accepted."""
    for tame, at_end in itertools.product(tames(field), (True, False)):
        value = field.grown(lambda _: True, at_end=at_end)
        try:
            plan = planned(tame.world, field, value, tame.key)
        except SpecError:
            value = field.grown(allowed(tame.world, field, tame.key), at_end=at_end)
            plan = planned(tame.world, field, value, tame.key)
        yield Case(tame.world, value, manifests(plan), tame.made)


ALL = fields()
EACH = pytest.mark.parametrize("field", ALL, ids=[each.path for each in ALL])


LISTED = {"spec.spark.application.conf{}"}
"""Fields whose values are those of a list: the operator refuses every text of a user."""


@EACH
@pytest.mark.slow
def test_a_text_of_a_user_stays_text(field: Field) -> None:
    seen, found = False, dict[str, str]()
    for case in cases(field):
        seen |= any(True for manifest in case.made for _ in places(manifest, field.seed[1]))
        for problem in problems(field, case.value, case.made, case.tame):
            found.setdefault(problem.split(": ", 2)[0] + problem[:200], f"{case.world.name}: {problem[:400]}")
    assert seen is (field.path not in LISTED), (
        f"{field.path}: no plan has the marker: add a value that the operator accepts to SEEDS or KEYS"
    )
    assert not found, "\n".join(found.values())


# --- terminals and logs ----------------------------------------------------------------------------------------------


def texts(node: Any) -> Iterator[str]:
    """All texts of plain data."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield name
            yield from texts(value)
    elif isinstance(node, list):
        for each in node:
            yield from texts(each)
    elif isinstance(node, str):
        yield node


@dataclass(frozen=True)
class Shown:
    """What people see of a resource.

    Attributes:
        status: Its status, as written.
        events: The messages of its Events.
        screen: The output of `kubectl eventconsumer status`, without styles.
        log: The log of the operator.
    """

    status: dict[str, Any]
    events: tuple[str, ...]
    screen: str
    log: str


def shown(world: LauncherWorld, field: Field, value: str, key: str, log: io.StringIO) -> Shown:
    """What people see of a resource with a value that the API server accepts, whether or not the operator does."""
    observed, settings = observe(world.spec(field, value, key)), world.settings(field, value)
    plan: Plan | None = None
    errors: tuple[SpecError, ...] = ()
    try:
        plan = make_plan(observed, settings)
    except SpecError as error:
        errors = (error,)
    status = make_status(observed, plan, errors, settings)
    written = wire(status)
    resource = {
        "metadata": {"name": "orders", "namespace": "shop", "creationTimestamp": NOW.isoformat()},
        "spec": dict(observed.consumer.spec),
        "status": written,
    }
    screen = io.StringIO()
    console = Console(file=screen, width=10_000)  # no line is folded
    look = Look(resource, HostPods(), NOW)
    for part in (*overview([look], with_namespace=True), *details(look)):
        console.print(part)
    log.truncate(log.seek(0))
    structlog.get_logger("operator").warning("refused", error=str(errors[0]) if errors else value)
    news = changes(observed.consumer.status, status)
    return Shown(written, tuple(event(observed, each)["message"] for each in news), screen.getvalue(), log.getvalue())


def harms(said: Shown) -> list[str]:
    """Texts that a terminal would act on, or that look like two."""
    return [
        *(f"status: {text!r}" for text in texts(said.status) if text != clean_line(text)),
        *(f"event: {text!r}" for text in said.events if text != clean_line(text)),
        *(f"screen: {line!r}" for line in said.screen.split("\n") if line != clean_line(line)),
        *(f"screen: a line of its own: {line!r}" for line in said.screen.split("\n") if line.startswith("MARK: y")),
        *(f"log: {line!r}" for line in said.log.removesuffix("\n").split("\n") if not line.isascii() or "\x1b" in line),
        *(["log: another line"] if said.log.count("\n") != 1 else []),
    ]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Where the operator's log goes."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    configure(stream=(stream := io.StringIO()))
    yield stream
    structlog.configure(**before)
    root.handlers, root.level = handlers, level


@EACH
@pytest.mark.slow
def test_a_text_of_a_user_does_not_reach_a_terminal_as_it_is(field: Field, log: io.StringIO) -> None:
    found = dict[str, str]()
    for world, key, at_end in itertools.product(WORLDS[:2], keys(field)[:1], (True, False)):
        value = field.grown(lambda _: True, at_end=at_end)
        for harm in harms(shown(world, field, value, key, log)):
            found.setdefault(harm.partition(":")[0], harm[:400])
    assert not found, "\n".join(found.values())


# --- the property finds what it looks for ----------------------------------------------------------------------------

RAW = "".join(HOSTILE)
ARGUMENTS = next(each for each in ALL if each.path == "spec.spark.application.arguments[]")


@pytest.mark.parametrize("pattern", [pattern for pattern, check in PLACES if check is not anything])
def test_no_place_accepts_every_text(pattern: str) -> None:
    assert dict(PLACES)[pattern](RAW)


@pytest.mark.parametrize("problem", ["../x", "a/..", ".", "a//b", "a%2e", "a b", "a\n", "\u202e"])
def test_paths_are_literal(problem: str) -> None:
    assert path("a/b_c=d.e/") is None
    assert path(problem)
    assert OUTPUT(f"abfss://c@shop.dfs.core.windows.net/{problem}/f")


@pytest.mark.parametrize(
    "problem", ["https://a@b/x", "https://b:x/", "https://b/x?y", "https://b/x#y", "ftp://b", "//b"]
)
def test_urls_have_one_reading(problem: str) -> None:
    assert STORAGE("https://shop.blob.core.windows.net:443/x") is None
    with contextlib.suppress(ValueError):  # of a parser: it is refused
        assert STORAGE(problem)


@pytest.mark.slow
def test_no_entry_of_the_table_is_dead() -> None:
    """Else a place that comes back later would be accepted unseen."""
    seen = {
        place.path
        for field in ALL
        for tame in tames(field)
        for manifest in tame.made
        for place in places(manifest, field.seed[1])
    }
    dead = [pattern for pattern, _ in PLACES if not any(re.fullmatch(pattern, each) for each in seen)]
    assert not dead, dead


def raw(manifest: Manifest) -> Manifest:
    """Without the escapes in arguments."""
    return changed(manifest, lambda arguments: [expand(each) for each in arguments])


def split(manifest: Manifest) -> Manifest:
    """As a shell would make it."""
    return changed(manifest, lambda arguments: [word for each in arguments for word in each.split()])


def cut(manifest: Manifest) -> Manifest:
    """Silently changed."""
    return changed(manifest, lambda arguments: [each.replace("`", "") for each in arguments])


def noted(manifest: Manifest) -> Manifest:
    """With the arguments in an annotation."""
    arguments = manifest["spec"]["template"]["spec"]["containers"][0]["args"]
    return manifest | {"metadata": manifest["metadata"] | {"annotations": {"arguments": str(arguments)}}}


def changed(manifest: Manifest, change: Callable[[list[str]], list[str]]) -> Manifest:
    made = copy.deepcopy(manifest)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["args"] = change(container["args"])
    return made


@pytest.mark.parametrize(
    ("careless", "found"),
    [(raw, "the kubelet looks up"), (split, "other parts"), (cut, "not the text of the user"), (noted, "no place")],
)
def test_a_careless_planner_is_found(careless: Callable[[Manifest], Manifest], found: str) -> None:
    value = ARGUMENTS.grown(lambda _: True, at_end=True)
    made, tame = (manifests(planned(WORLDS[0], ARGUMENTS, each, "")) for each in (value, ARGUMENTS.seed[0]))
    spoiled = tuple(
        careless(each)
        if each["kind"] == "Job" and "args" in each["spec"]["template"]["spec"]["containers"][0]
        else each
        for each in made
    )
    assert any(found in problem for problem in problems(ARGUMENTS, value, spoiled, tame))


def test_a_careless_message_is_found() -> None:
    found = harms(Shown({"message": RAW}, (RAW,), RAW, RAW))
    assert {each.partition(":")[0] for each in found} == {"status", "event", "screen", "log"}


def test_a_new_field_is_found_and_needs_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = copy.deepcopy(schema_of_spec())
    schema["properties"]["sink"]["properties"]["mode"] = {"type": "string", "pattern": "^[a-c]{2}$"}
    monkeypatch.setattr(markers, "schema_of_spec", lambda: schema)
    (field,) = (each for each in fields() if each.path == "spec.sink.mode")
    with pytest.raises(AssertionError, match=r"spec\.sink\.mode: no value with a marker"):
        _ = field.seed


def test_rules_are_those_of_the_schema() -> None:
    for name, pattern in RULES.items():
        node = schema_of_spec()["properties"][name.split(".")[1]]
        assert any(f"matches('{pattern}')" in rule["rule"] for rule in node["x-kubernetes-validations"])
