"""Which pinned packages a record of the OSV format names, and what the audit says about them."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_release import advisories, audit, materials
from eventconsumer_release.advisories import Record
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.inventory import Pinned

ROOT = Path(__file__).parents[3]


def package(kind: str, name: str, version: str) -> Pinned:
    namespace, _, name = name.rpartition("/")
    return Pinned(kind, namespace, name, version, (("sha256", "0"),))


def record(ecosystem: str, name: str, *events: dict[str, str], **more: Any) -> Record:
    kind = "ECOSYSTEM" if ecosystem == "PyPI" else "SEMVER"
    affected = {"package": {"ecosystem": ecosystem, "name": name}, "ranges": [{"type": kind, "events": list(events)}]}
    return {"id": "X-1", "summary": "a hole", "affected": [affected]} | more


@pytest.mark.parametrize(
    ("kind", "ecosystem", "version", "events", "named"),
    [
        ("pypi", "PyPI", "1.9", [{"introduced": "0"}, {"fixed": "1.10"}], True),
        ("pypi", "PyPI", "1.10", [{"introduced": "0"}, {"fixed": "1.10"}], False),
        ("pypi", "PyPI", "1.10rc1", [{"introduced": "0"}, {"fixed": "1.10"}], True),
        ("pypi", "PyPI", "2.5", [{"introduced": "2.6"}, {"fixed": "2.7"}, {"introduced": "1"}, {"fixed": "2"}], False),
        ("pypi", "PyPI", "2.6.1", [{"introduced": "2.6"}, {"fixed": "2.7"}, {"introduced": "1"}, {"fixed": "2"}], True),
        ("npm", "npm", "4.17.20", [{"introduced": "0"}, {"last_affected": "4.17.20"}], True),
        ("npm", "npm", "4.17.21", [{"introduced": "0"}, {"last_affected": "4.17.20"}], False),
        ("npm", "npm", "1.0.0-beta.11", [{"introduced": "1.0.0-beta.2"}], True),
        ("golang", "Go", "v0.17.0", [{"introduced": "0"}, {"fixed": "0.18.0"}], True),
        ("golang", "Go", "v0.0.0-20211209124913-491a49abca63", [{"introduced": "0.0.0-20220101000000-0"}], False),
        ("golang", "Go", "v2.7.1+incompatible", [{"introduced": "0"}, {"fixed": "2.8.0+incompatible"}], True),
    ],
)
def test_a_version_is_compared_in_the_order_of_its_ecosystem(
    kind: str, ecosystem: str, version: str, events: list[dict[str, str]], named: bool
) -> None:
    found = list(advisories.findings([package(kind, "a/b", version)], [record(ecosystem, "a/b", *events)]))
    assert bool(found) == named


def test_names_listed_versions_and_withdrawn_records() -> None:
    listed: dict[str, Any] = {"package": {"ecosystem": "PyPI", "name": "ruamel-yaml"}, "versions": ["1"]}
    assert list(advisories.findings([package("pypi", "ruamel.yaml", "1")], [{"id": "X-1", "affected": [listed]}]))
    everything = record("PyPI", "a", {"introduced": "0"})
    assert list(advisories.findings([package("pypi", "a", "1")], [everything]))
    assert not list(advisories.findings([package("pypi", "a", "1")], [{**everything, "withdrawn": "2026-01-01"}]))
    assert not list(advisories.findings([package("npm", "a", "1.0.0"), package("pypi", "b", "1")], [everything]))
    of_commits: dict[str, Any] = {
        "package": {"ecosystem": "PyPI", "name": "a"},
        "ranges": [{"type": "GIT", "events": []}],
    }
    assert not list(advisories.findings([package("pypi", "a", "1")], [{"id": "X-1", "affected": [of_commits]}]))


ENTRY = 'id = "X-1"\necosystem = "PyPI"\npackage = "pyyaml"\nreason = "not called"\ndate = "2026-11-25"\n'


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources with one package in an image and one of the tools, and no accepted advisory."""
    pinned = [
        ("image operator", package("pypi", "pyyaml", "5.3")),
        (materials.LOCAL, package("npm", "azurite", "3.0.0")),
    ]
    monkeypatch.setattr(materials, "pinned", lambda root: iter(pinned))
    (tmp_path / audit.ACCEPTED).parent.mkdir(parents=True)
    (tmp_path / audit.ACCEPTED).touch()
    return tmp_path


def test_a_finding_in_an_image_is_a_mistake_until_it_is_accepted(sources: Path) -> None:
    records = [record("PyPI", "pyyaml", {"introduced": "0"}, {"fixed": "5.4"})]
    assert audit.report(sources, records).mistakes == ["PyPI pyyaml 5.3: X-1 a hole"]
    (sources / audit.ACCEPTED).write_text(f"[[accepted]]\n{ENTRY}")
    assert audit.report(sources, records).mistakes == []
    fixed = [record("PyPI", "pyyaml", {"introduced": "0"}, {"fixed": "5"})]
    assert audit.report(sources, fixed).mistakes == [
        f"{audit.ACCEPTED}: no package of an image has X-1 in pyyaml any more; remove the entry"
    ]
    assert audit.report(sources, []).mistakes == []  # nothing is known about the entry


@pytest.mark.parametrize("field", ["id", "ecosystem", "package", "reason", "date"])
def test_an_accepted_advisory_names_its_reason_and_date(sources: Path, field: str) -> None:
    lines = [line for line in ENTRY.splitlines() if not line.startswith(field)]
    (sources / audit.ACCEPTED).write_text("\n".join(["[[accepted]]", *lines]))
    with pytest.raises(ReleaseError, match=f"has no {field}"):
        audit.report(sources, [])


def test_ecosystems_without_advisories_are_not_called_clean(sources: Path) -> None:
    found = audit.report(sources, [record("npm", "azurite", {"introduced": "0"}, modified="2026-01-02T03:04:05Z")])
    assert found.mistakes == []
    assert [str(each) for each in found.elsewhere] == ["npm azurite 3.0.0: X-1 a hole"]
    told = {line.partition(":")[0]: line for line in found.lines}
    assert "0 in images and 1 elsewhere have one of 1 advisories (newest: 2026-01-02)" in told["npm"]
    for ecosystem in ("PyPI", "Go", "Maven"):
        assert "NOT AUDITED" in told[ecosystem]


def test_folders_without_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="has no JSON files"):
        list(audit.read(tmp_path))
    (tmp_path / "package.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(ReleaseError, match="is not a record of the OSV format"):
        list(audit.read(tmp_path))


def test_every_pinned_version_of_this_repository_can_be_compared() -> None:
    """An advisory about each package that was fixed long ago: a version that cannot be read would raise."""
    pinned = {
        found for _, found in materials.pinned(ROOT) if advisories.ECOSYSTEMS[found.kind] in advisories.COMPARABLE
    }
    old = [
        record(advisories.ECOSYSTEMS[each.kind], f"{each.namespace}/{each.name}".lstrip("/"), {"fixed": "0.0.0"})
        for each in pinned
    ]
    assert len(old) > 500
    assert list(advisories.findings(pinned, old)) == []
