"""All kinds of documents, their fields, and samples of them: minimal ones, and full ones with each field not default.

Samples are made from the models, so a new field needs no sample of its own; a new pattern may need a text in `_TEXTS`.
"""

import dataclasses
import json
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from eventconsumer_api.shared.model import FIRST_VERSION, Since
from eventconsumer_api.wire.batch import BatchClaim, BatchCommit, BatchJob, BatchManifest, RegistryCheck
from eventconsumer_api.wire.columns_record import ColumnsRecord
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.fleet import FleetMessage
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_api.wire.identity import ChainRecord, LeaseRecord, OutputRecord, SegmentRecord
from eventconsumer_api.wire.termination import BatchReplayTotals, ReplayTotals
from eventconsumer_api.wire.watermark import WatermarkRecord
from eventconsumer_cli.kube.releases import Settings
from eventconsumer_host.handler.deadletter import Letter
from eventconsumer_host.host.replay import ReplayRecord
from eventconsumer_host.leader.retention import RetentionRecord
from eventconsumer_host.notice.cursor import NoticesRecord
from eventconsumer_host.sink.slots import Genesis
from eventconsumer_spark.job import Decoding
from tests.golden.versions import Version, versions

DOCUMENTS: tuple[type[WireDocument], ...] = (
    BatchClaim,
    BatchCommit,
    BatchJob,
    BatchManifest,
    BatchReplayTotals,
    ChainRecord,
    ColumnsRecord,
    Decoding,
    FleetMessage,
    Genesis,
    HostConfig,
    HostReport,
    SegmentRecord,
    LeaseRecord,
    Letter,
    NoticesRecord,
    OutputRecord,
    RegistryCheck,
    ReplayRecord,
    ReplayTotals,
    RetentionRecord,
    Settings,
    WatermarkRecord,
)
DEFAULTS = "defaults.json"
"""What readers take for the fields that are not written."""

_TEXTS = (
    "17",
    "0123456789abcdef",
    "orders:Handler",
    "abfss://results@shop.dfs.core.windows.net/orders",
    "1Mi",
    "512m",
    "https://shop.example.com/files",
    "Authorization",
    "/config/shop",
    "APP_LEVEL",
    "APP_",
    "10.1.2.0/24",
    "0 6 * * *",
    "local:///app/job.py",
    "TIMESTAMP",
    "$.price.cents",
)
_NUMBERS = (7, 60, 900, 1024, 2_000_000, 20_000_000, 1)


def kind(model: type[WireDocument]) -> str:
    """Name of a kind in names of files: `host-config`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", model.__name__).lower()


@dataclass(frozen=True)
class Named:
    """A field of a document.

    Attributes:
        path: Names of JSON; `*` is each item of a list, or value of a map.
        since: The version that has it first, with the parts around it.
        required: Whether it is always written.
        default: Otherwise, what it means if it is absent, as JSON.
        constant: Whether it has one possible value, which is the default: it is never written.
    """

    path: tuple[str, ...]
    since: str
    required: bool
    default: Any = None
    constant: bool = False


def fields(model: type, before: tuple[str, ...] = (), since: str = FIRST_VERSION) -> Iterator[Named]:
    """All fields of a model and of its parts."""
    for name, field in _fields(model).items():
        path = (*before, field.alias or name)
        version = max(since, _since(field), key=order)
        default = None if field.is_required() else _json(field.get_default(call_default_factory=True))
        constant = not field.is_required() and _values(field.annotation) == (field.default,)
        yield Named(path, version, field.is_required(), default, constant)
        for more, part in parts(field.annotation):
            yield from fields(part, (*path, *more), version)


def order(version: str) -> int:
    """The place of a version; those that versions.txt lacks are later than all."""
    known = {each.name: each.order for each in versions()}
    return known.get(version, len(known))


def parts(annotation: Any) -> Iterator[tuple[tuple[str, ...], type]]:
    """The models in an annotation, and the path to each of them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from parts(arguments[0])
    elif origin in {Union, types.UnionType}:
        for each in arguments:
            yield from parts(each)
    elif origin in {list, tuple, dict}:
        for path, part in parts(arguments[1 if origin is dict else 0]):
            yield ("*", *path), part
    elif isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        yield (), annotation


def objects(model: type, value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a document's JSON that are models: they may have unknown fields. Maps may not."""
    yield value
    for name, field in _fields(model).items():
        inner = value.get(field.alias or name)
        for path, part in parts(field.annotation):
            for each in _at(inner, path):
                yield from objects(part, each)


def has(value: Any, path: tuple[str, ...]) -> bool:
    """Whether a document's JSON has a field."""
    return bool([each for each in _at(value, path[:-1]) if path[-1] in each])


def sample(model: type, version: Version, *, full: bool) -> dict[str, Any]:
    """A document of a version, as JSON: with each field, none at its default, or with the required ones alone."""
    found = {}
    for name, field in _fields(model).items():
        if order(_since(field)) <= version.order and (full or field.is_required()):
            alias = field.alias or name
            found[alias] = _value(alias, field, version, full=full)
    return found


def write(model: type[WireDocument], version: Version, *, full: bool) -> str:
    """A sample as a program of this version writes it."""
    return model.model_validate_json(json.dumps(sample(model, version, full=full))).to_json(indent=2) + "\n"


def defaults(version: Version) -> dict[str, dict[str, Any]]:
    """By kind and path: what readers take for a field that is absent."""
    return {
        kind(model): {
            ".".join(each.path): each.default
            for each in fields(model)
            if not each.required and order(each.since) <= version.order
        }
        for model in DOCUMENTS
    }


def generate(version: Version) -> dict[str, str]:
    """All files of a version, by name."""
    found = {
        f"{kind(model)}-{name}.json": write(model, version, full=name == "full")
        for model in DOCUMENTS
        for name in ("minimal", "full")
    }
    return found | {DEFAULTS: json.dumps(defaults(version), indent=2) + "\n"}


def _fields(model: type) -> Mapping[str, FieldInfo]:
    if issubclass(model, BaseModel):
        return model.model_fields
    return {name: FieldInfo.from_annotation(each) for name, each in get_type_hints(model, include_extras=True).items()}


def _since(field: FieldInfo) -> str:
    return next((each.version for each in field.metadata if isinstance(each, Since)), FIRST_VERSION)


def _values(annotation: Any) -> tuple[Any, ...]:
    """The values of an enumeration; empty: it is none."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(annotation)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return TypeAdapter(Any).dump_python(value, mode="json", by_alias=True)


def _at(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    if not path:
        if value is not None:
            yield value
    elif path[0] == "*":
        for each in value.values() if isinstance(value, dict) else value or ():
            yield from _at(each, path[1:])
    elif value is not None and path[0] in value:
        yield from _at(value[path[0]], path[1:])


def _value(name: str, field: FieldInfo, version: Version, *, full: bool) -> Any:
    """The first candidate that is valid and, in a full document, is not the default."""
    annotation: Any = Annotated[field.annotation, None, *field.metadata]
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    last = None
    for each in _candidates(field.annotation, name, version, full=full):
        try:
            read = adapter.validate_json(json.dumps(each))
        except ValidationError:
            continue
        if not full or field.is_required() or read != default:
            return each
        last = each
    if last is None:
        raise LookupError(f"no sample for {name} ({field.annotation}, {field.metadata}): add one to tests/golden")
    return last


def _candidates(annotation: Any, name: str, version: Version, *, full: bool) -> Iterator[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        if not full and type(None) in arguments:
            yield None
        for each in arguments:
            if each is not type(None):
                yield from _candidates(each, name, version, full=full)
    elif origin is Annotated:
        yield from _candidates(arguments[0], name, version, full=full)
    elif origin is Literal:
        yield from arguments
    elif origin in {list, tuple}:
        if not full:
            yield []
        yield from ([item] for item in _candidates(arguments[0], name, version, full=full))
    elif origin is dict:
        if not full:
            yield {}
        for key in _candidates(arguments[0], name, version, full=full):
            yield from ({key: item} for item in _candidates(arguments[1], name, version, full=full))
    elif annotation is Any:
        yield [name]
    elif annotation is bool:
        yield from (True, False)
    elif annotation is int:
        yield from _NUMBERS
    elif annotation is float:
        yield 1.5
    elif annotation is str:
        yield from (name, *_TEXTS)
    elif annotation in {datetime, AwareDatetime}:
        yield "2026-01-02T03:04:05.678000Z"
    elif issubclass(annotation, Enum):
        yield from reversed([each.value for each in annotation])
    else:
        yield sample(annotation, version, full=full)
