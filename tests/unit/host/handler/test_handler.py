"""The face for user code: the view on a batch, and what is said about a class that cannot be used."""

import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.errors import Blocked
from eventconsumer_host.handler.api import Batch
from eventconsumer_host.handler.loading import load
from eventconsumer_host.source.columns import as_text
from eventconsumer_host.source.rows import Binary, EventRows
from tests.support.fakes.hub import rows_of


def events_of(count: int, first: int = 5) -> EventRows:
    return rows_of((number, b"body %d" % number) for number in range(first, first + count))


# --- the view ---


def test_events_have_every_column() -> None:
    event = Batch(events_of(3))[1]
    assert (event.sequence_number, event.offset, event.body) == (6, "60", b"body 6")
    assert event.enqueued_time == datetime(2026, 1, 1, 0, 0, 0, 6000, UTC)
    assert (event.partition_key, event.properties, event.system_properties) == ("key", {"number": "6"}, {})
    assert (event.content_type, event.message_id, event.correlation_id) == (None, None, None)


@given(st.integers(0, 20), st.data())
def test_columns_events_and_parts_say_the_same(count: int, data: st.DataObject) -> None:
    events = events_of(count)
    indices = sorted(data.draw(st.sets(st.integers(0, count - 1)))) if count else []
    view = Batch(events, indices)
    assert [event.sequence_number for event in view] == [index + 5 for index in indices]
    columns = zip(
        view.sequence_numbers,
        view.offsets,
        view.enqueued_times,
        view.partition_keys,
        view.bodies,
        view.properties,
        view.system_properties,
        view.content_types,
        view.message_ids,
        view.correlation_ids,
        strict=True,
    )
    assert list(columns) == [
        tuple(getattr(event, name) for name in event.__dataclass_fields__)  # the fields, in their order
        for event in view
    ]
    start = data.draw(st.integers(0, len(indices)))
    assert list(view[start:]) == list(view)[start:]
    assert len(view) == len(indices)


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-00"


def binary(value: bytes) -> str:
    """The value of a Kafka header, as columns have it."""
    return as_text(Binary(value))


@pytest.mark.parametrize(
    ("properties", "context"),
    [
        ({}, {}),
        ({"traceparent": PARENT}, {"traceparent": PARENT}),
        ({"traceparent": PARENT, "tracestate": "a=1"}, {"traceparent": PARENT, "tracestate": "a=1"}),
        ({"Diagnostic-Id": PARENT, "tracestate": "a=1"}, {"traceparent": PARENT, "tracestate": "a=1"}),
        ({"traceparent": PARENT, "Diagnostic-Id": OTHER}, {"traceparent": PARENT}),
        ({"traceparent": "nothing", "Diagnostic-Id": OTHER}, {"traceparent": OTHER}),
        (
            {"traceparent": binary(PARENT.encode()), "tracestate": binary(b"a=1")},
            {"traceparent": PARENT, "tracestate": "a=1"},
        ),
        ({"traceparent": binary(b"\xff")}, {}),
        ({"traceparent": '{"$binary":"x"}'}, {}),
        ({"Diagnostic-Id": "|4bf92f3577b34da6.00f067aa_"}, {}),  # the older form of the SDK for .NET
        ({"tracestate": "a=1"}, {}),
        ({"traceparent": PARENT.upper()}, {}),
        ({"traceparent": PARENT + "-more"}, {}),
        ({"traceparent": "cc" + PARENT[2:] + "-more"}, {"traceparent": "cc" + PARENT[2:] + "-more"}),
        ({"traceparent": "ff" + PARENT[2:]}, {}),
        ({"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"}, {}),
        ({"traceparent": f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01"}, {}),
    ],
)
def test_the_trace_context_is_that_of_the_publisher(properties: dict[str, str], context: dict[str, str]) -> None:
    event = replace(Batch(events_of(1))[0], properties=properties)
    assert event.trace_context == context


def test_a_user_cannot_change_what_goes_to_the_files() -> None:
    events = events_of(3)
    view = Batch(events)
    with pytest.raises(FrozenInstanceError):
        view[0].body = b"x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        view.bodies.append(b"x")  # type: ignore[attr-defined]
    view.properties[0]["number"] = "7"
    assert Batch(events)[0].properties == {"number": "5"}


# --- loading ---


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[Path]:
    """The folder of code of an image; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    folder = tmp_path / "app"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refusal(spec: str, folder: Path) -> str:
    with pytest.raises(Blocked) as caught:
        load(spec, folder)
    problem = caught.value.problem
    assert (problem.field, problem.reason) == ("spec.processing.handler", "HandlerInvalid")
    return problem.message


GOOD = "def process_events(self, context, batch): pass"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "module orders has no class Orders: fix the name, or add the class"),
        ("def Orders(): pass", "orders:Orders is a function, not a class"),
        ("Orders = 5", "orders:Orders is a value of type int, not a class"),
        ("class Orders: pass", "orders:Orders has no method process_events: add it"),
        (
            "from eventconsumer_host.handler.api import EventProcessor\nclass Orders(EventProcessor): pass",
            "orders:Orders has no method process_events: add it",
        ),
        ("class Orders:\n    process_events = 5", "orders:Orders has no method process_events"),
        (
            "class Orders:\n    def process_events(self, batch): pass",
            "orders:Orders.process_events must take (self, context, batch)",
        ),
        (
            f"class Orders:\n    {GOOD}\n    async def close(self, context): pass",
            "orders:Orders.close must take (self, context, reason)",
        ),
        (
            f"class Orders:\n    {GOOD}\n    def __init__(self): raise OSError('no AccountKey=abc123')",
            "orders:Orders() fails with OSError: no AccountKey=*** (orders.py, line 3)",
        ),
        (
            f"class Orders:\n    {GOOD}\n    def __init__(self, url): pass",
            "the class must be created without arguments",
        ),
        ("import missing_client", "module orders needs the module missing_client, which is not in the image"),
        ("import sys\nsys.exit(3)", "importing orders for orders:Orders fails with SystemExit: 3"),
        ("1 / 0", "importing orders for orders:Orders fails with ZeroDivisionError: division by zero (orders.py"),
        ("class Orders", "importing orders for orders:Orders fails with SyntaxError"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_with_the_remedy(modules: Path, source: str, said: str) -> None:
    (modules / "orders.py").write_text(source)
    assert said in refusal("orders:Orders", modules)


def test_a_missing_module_or_package_is_named(modules: Path) -> None:
    missing = refusal("missing:Orders", modules)
    assert missing.startswith(f"there is no module missing in {modules} of the image: build processing.image FROM")
    assert "with: from missing import Shop" in missing
    (modules / "shop").mkdir()
    assert refusal("shop.orders:Orders", modules) == f"the folder shop in {modules} has no __init__.py: add this file"
    (modules / "shop/__init__.py").touch()
    assert refusal("shop.orders:Orders", modules).startswith(
        f"there is no module shop.orders in {modules} of the image"
    )


NEVER = "raise SystemExit('executed')"


@pytest.mark.parametrize("spec", ["antigravity:Shop", "this:Shop", "os.path:Shop", "idlelib.idle:Shop"])
@pytest.mark.parametrize("copied", [False, True])
def test_a_module_of_python_is_refused_before_anything_is_imported(modules: Path, spec: str, *, copied: bool) -> None:
    top = spec.partition(":")[0].partition(".")[0]
    if copied:
        (modules / f"{top}.py").write_text(NEVER)
    before = set(sys.modules)
    assert refusal(spec, modules) == f"{top} is a name of Python: rename the module"
    assert set(sys.modules) == before


def test_a_module_of_this_program_is_refused(modules: Path) -> None:
    (modules / "eventconsumer_shop.py").write_text(NEVER)
    assert refusal("eventconsumer_shop:Shop", modules).startswith(
        "eventconsumer_shop is a name of this program: rename"
    )
    assert "is a name of this program" in refusal("eventconsumer_host.handler.api:EventProcessor", modules)


def test_an_installed_package_is_refused_and_re_exported_by_a_file_of_one_line(modules: Path, tmp_path: Path) -> None:
    packages = tmp_path / "site-packages/acme"
    packages.mkdir(parents=True)
    (packages / "__init__.py").write_text("raise SystemExit('executed')")
    sys.path.insert(0, str(packages.parent))
    try:
        for spec in ("acme:Shop", "acme.shop:Shop"):
            assert "with: from acme import Shop" in refusal(spec, modules)
        (packages / "__init__.py").write_text(f"class Shop:\n    {GOOD}")
        (modules / "shop.py").write_text("from acme import Shop")
        assert type(load("shop:Shop", modules)()).__module__ == "acme"
    finally:
        sys.path.remove(str(packages.parent))


def test_the_module_of_the_folder_counts_whatever_the_path_has_first(modules: Path, tmp_path: Path) -> None:
    (modules / "orders").mkdir()
    (modules / "orders/__init__.py").touch()
    (modules / "orders/eu.py").write_text(f"class Orders:\n    {GOOD}")
    other = tmp_path / "other"
    other.mkdir()
    (other / "orders.py").write_text(NEVER)
    sys.path.insert(0, str(other))
    try:
        assert type(load("orders.eu:Orders", modules)()).__module__ == "orders.eu"
    finally:
        sys.path.remove(str(other))


@pytest.mark.parametrize("linked", ["orders.py", "orders"])
def test_a_link_out_of_the_folder_is_refused(modules: Path, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("orders.py", "__init__.py"):
        (elsewhere / name).write_text(NEVER)
    (modules / linked).symlink_to(elsewhere / "orders.py" if linked == "orders.py" else elsewhere)
    assert "is a link out of" in refusal("orders:Orders", modules)


def test_a_module_with_the_name_of_a_package_that_is_loaded_is_named(modules: Path) -> None:
    (modules / "pyarrow.py").write_text(NEVER)
    message = refusal("pyarrow:Orders", modules)
    assert message.startswith("the module pyarrow is that of ") and message.endswith(f"not of {modules}: rename yours")


def test_a_class_need_not_have_the_base_nor_the_optional_methods(modules: Path) -> None:
    (modules / "orders.py").write_text(f"class Orders:\n    {GOOD}")
    assert type(load("orders:Orders", modules)()).__name__ == "Orders"


def test_each_instance_is_another_and_none_is_made_for_nothing(modules: Path) -> None:
    (modules / "orders.py").write_text(
        dedent(
            f"""
            class Orders:
                made = 0
                def __init__(self):
                    Orders.made += 1
                {GOOD}
            """
        )
    )
    factory = load("orders:Orders", modules)
    first, second = factory(), factory()
    assert first is not second
    assert first.made == 2  # type: ignore[attr-defined]
