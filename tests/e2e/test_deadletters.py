"""Dead letters on the real cluster: an order that the handler's database refuses is listed, shown and passed again.

The cause is corrected in the database and not in the pod: a host that starts again reports no earlier dead letters.
"""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Demo, handler_image
from tests.e2e.consumers import consumer, create_secrets, emulator_admin
from tests.e2e.test_plugin import Plugin
from tests.e2e.waiting import condition, until, wait_for

pytestmark = pytest.mark.long

NAME = "letters"
ORDERS = 20
BAD = 7
CAUSE = "order A-7 is not in stock"
DATABASE = "/tmp/shop.sqlite"  # the default of the example
PLACE = ("-p", "0", "--sequence-number", str(BAD))
REFUSE = f"""
CREATE TRIGGER IF NOT EXISTS stock BEFORE INSERT ON bookings WHEN NEW.reference = 'A-{BAD}'
BEGIN SELECT RAISE(ABORT, '{CAUSE}'); END
"""


def execute(demo: Demo, statement: str) -> list[list[str]]:
    """Execute a statement in the database of the handler; returns its rows."""
    program = (
        f"import json, sqlite3; database = sqlite3.connect({DATABASE!r}); "
        f"print(json.dumps(database.execute({statement!r}).fetchall())); database.commit()"
    )
    found: list[list[str]] = json.loads(demo.cluster.kubectl("exec", f"{NAME}-host-0", "--", "python3", "-c", program))
    return found


def reported(demo: Demo) -> bool:
    """Whether the status of the resource names dead letters."""
    return "_deadletters/" in condition(demo, NAME, "Draining").get("message", "")


@pytest.fixture(scope="module")
def plugin(demo: Demo) -> Iterator[Plugin]:
    """A consumer whose handler could not process one of its orders; removed at the end."""
    create_secrets(demo.cluster, NAME)
    resource = consumer(NAME)
    resource["spec"]["processing"] = {"handler": "shop:Shop", "image": handler_image(), "handlerAttempts": 2}
    with emulator_admin(demo.cluster) as admin:
        admin.create_hub(NAME, partitions=1)
        demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(resource))
        wait_for(demo, NAME, "Ready", "True")
        until(lambda: execute(demo, REFUSE) == [], "the handler has created its table")
        for number in range(ORDERS):
            admin.put_event(NAME, "0", json.dumps({"order": f"A-{number}", "cents": 100}).encode())
    until(lambda: reported(demo), "the dead letter is reported")
    yield Plugin(demo)
    demo.cluster.kubectl("delete", "eventconsumer", NAME, "--ignore-not-found")


def test_a_dead_letter_is_listed_and_shown_with_its_cause(plugin: Plugin) -> None:
    listed = plugin.json("deadletters", "list", NAME)
    (row,) = listed["letters"]
    assert (listed["total"], row["partition"], row["sequenceNumber"]) == (1, "0", BAD), listed
    assert (row["error"], row["message"]) == ("sqlite3.IntegrityError", CAUSE), row
    assert row["attempts"] >= 2 and not row["redriveRequested"], row
    letter = plugin.json("deadletters", "show", NAME, *PLACE)["letter"]
    assert json.loads(letter["bodyText"]) == {"order": f"A-{BAD}", "cents": 100}, letter
    assert "process_events" in letter["error"]["traceback"], letter
    seen = plugin.run("deadletters", "show", NAME, *PLACE)
    assert seen.returncode == 0 and CAUSE in seen.stdout, seen


def test_after_the_correction_it_is_passed_again_and_the_report_ends(demo: Demo, plugin: Plugin) -> None:
    execute(demo, "DROP TRIGGER stock")
    planned = plugin.run("deadletters", "redrive", NAME, "--all")
    assert planned.returncode == 2 and "nothing was changed" in planned.stderr, planned  # nobody could be asked
    done = plugin.json("deadletters", "redrive", NAME, "--all", "--yes")
    (step,) = done["steps"]
    assert (done["done"], step["letters"], step["first"]) == (True, 1, BAD), done

    def processed() -> bool:
        return [f"A-{BAD}"] in execute(demo, "SELECT reference FROM bookings")

    until(processed, "the order is booked")
    until(lambda: plugin.run("deadletters", "list", NAME).returncode == 1, "no dead letter is left")
    until(lambda: not reported(demo), "no dead letter is reported")
    wait_for(demo, NAME, "Ready", "True")
    booked = sorted(reference for (reference,) in execute(demo, "SELECT reference FROM bookings"))
    assert booked == sorted(f"A-{number}" for number in range(ORDERS))
    (pod,) = demo.cluster.get("pods", "-l", f"eventconsumer.io/consumer={NAME}")["items"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0, "the report did not end with the host"
    printed = demo.cluster.kubectl("exec", f"{NAME}-host-0", "--", "eventconsumer", "audit", "--deep", "--json")
    report = json.loads(printed)
    assert report["exitCode"] == 0 and sum(each["events"] for each in report["partitions"]) == ORDERS, report
