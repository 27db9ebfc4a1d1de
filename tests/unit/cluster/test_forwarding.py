"""The machine forwards packets after the cluster only if it did before."""

from pathlib import Path

import pytest

from local_cluster.forwarding import Forwarding


@pytest.fixture
def forwarding(tmp_path: Path) -> Forwarding:
    """A machine that does not forward."""
    (tmp_path / "switch").write_text("0\n")
    (tmp_path / "boot_id").write_text("first\n")
    return Forwarding(tmp_path / "record", tmp_path / "switch", tmp_path / "boot_id")


def test_forwarding_ends_with_the_cluster(forwarding: Forwarding) -> None:
    forwarding.enable()
    assert forwarding.switch.read_text() == "1\n"
    forwarding.enable()  # `up` repairs a running cluster
    forwarding.put_back()
    assert forwarding.switch.read_text() == "0\n" and not forwarding.record.exists()
    forwarding.switch.write_text("1\n")
    forwarding.put_back()  # a second `down`
    assert forwarding.switch.read_text() == "1\n"


def test_forwarding_of_others_stays(forwarding: Forwarding) -> None:
    forwarding.switch.write_text("1\n")
    forwarding.enable()
    forwarding.put_back()
    assert forwarding.switch.read_text() == "1\n"


def test_after_a_restart_of_the_machine_the_setting_is_not_ours(forwarding: Forwarding) -> None:
    forwarding.enable()  # and the machine loses power
    forwarding.boot_id.write_text("second\n")
    forwarding.switch.write_text("1\n")  # another program enables it
    forwarding.put_back()
    assert forwarding.switch.read_text() == "1\n" and not forwarding.record.exists()


def test_an_interruption_between_record_and_change_changes_nothing(forwarding: Forwarding) -> None:
    forwarding.record.write_text("first\n")
    forwarding.put_back()
    assert forwarding.switch.read_text() == "0\n"
