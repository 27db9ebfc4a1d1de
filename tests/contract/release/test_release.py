"""A release of this very tree, built twice as two people would: the same bytes, and each file usable."""

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from eventconsumer_release.versions import DECODER, distributions

ROOT = Path(__file__).parents[3]
VERSION = str(yaml.safe_load((ROOT / "helm/eventconsumer/Chart.yaml").read_text())["version"])
WHEEL = ".whl"


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def release(root: Path, version: str = VERSION, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make release VERSION=… IMAGES=no` in another clone, with this environment's programs."""
    return subprocess.run(
        [sys.executable, "-m", "eventconsumer_release", version, "--root", str(root)],
        env=os.environ | {"IMAGES": "no"} | environment, check=False, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, umask=int(environment.get("UMASK", "22"), 8),
    )  # fmt: skip


def released(clone: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (clone / "dist").iterdir()}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This tree as it is now, also what is not committed yet, with a changelog section of its version."""
    folder = tmp_path_factory.mktemp("origin")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode & 0o777)
    changelog = folder / "CHANGELOG.md"
    head, _, rest = changelog.read_text().partition("## [Unreleased]")
    if f"## [{VERSION}]" not in rest:
        changelog.write_text(f"{head}## [Unreleased]\n\n## [{VERSION}] - 2026-01-02\n{rest}")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A release")
    return folder


@pytest.fixture(scope="module")
def clone(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first clone, in which a release was built."""
    folder = tmp_path_factory.mktemp("one") / "clone"
    git(origin, "clone", "--quiet", str(origin), str(folder))
    done = release(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def second(origin: Path, tmp_path: Path) -> Iterator[Path]:
    """Another clone, at a path of another length."""
    folder = tmp_path / "a-second" / "clone-of-somebody-else"
    git(origin, "clone", "--quiet", str(origin), str(folder))
    yield folder


def test_two_builds_are_the_same_bytes(clone: Path, second: Path) -> None:
    (second / "dist").mkdir()
    (second / "dist/of-an-earlier-build").touch()
    (second / "crds/src/eventconsumer_api/__pycache__").mkdir()
    (second / "crds/src/eventconsumer_api/__pycache__/x.pyc").write_bytes(b"trash that Git ignores")
    done = release(second, UMASK="77", TZ="Pacific/Auckland", LC_ALL="C", PYTHONHASHSEED="7")
    assert done.returncode == 0, done.stderr
    one, two = released(clone), released(second)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert git(second, "status", "--porcelain") == ""


def test_every_file_is_there_and_its_checksum_holds(clone: Path) -> None:
    names = set(released(clone))
    assert names >= {f"eventconsumer-{VERSION}.tgz", "sbom.cdx.json", "CHANGELOG.md", "SHA256SUMS"}
    assert "install.yaml" not in names, "no registry was given, so there is no image to install"
    assert sum(name.endswith(WHEEL) for name in names) == len(distributions(ROOT))
    assert sum(name.endswith(".tar.gz") for name in names) == len(distributions(ROOT))
    check = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=clone / "dist",
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert {line.removesuffix(": OK") for line in check.splitlines()} == names - {"SHA256SUMS"}


def test_wheels_hold_the_packages_and_the_license(clone: Path) -> None:
    for name, content in released(clone).items():
        if not name.endswith(WHEEL):
            continue
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            files = wheel.namelist()
        package = name.partition("-")[0]
        assert name.endswith("-py3-none-any.whl") == (package != "eventconsumer_decoder")
        assert any(file.endswith("/licenses/LICENSE") for file in files), name
        assert not [file for file in files if "__pycache__" in file]
        if package in {"eventconsumer_api", "eventconsumer_storage", "eventconsumer_operator", "eventconsumer_spark"}:
            sources = list(ROOT.glob(f"*/src/{package}/**/*.py"))
            assert sum(file.endswith(".py") for file in files) == len(sources) > 0


def test_a_wheel_of_the_release_runs(clone: Path, tmp_path: Path) -> None:
    (wheel,) = (clone / "dist").glob("eventconsumer_api-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    printed = subprocess.run(
        [sys.executable, "-m", "eventconsumer_api.crdgen"], cwd=tmp_path, check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    ).stdout  # fmt: skip
    assert printed == (ROOT / "crds/eventconsumers.yaml").read_text()


def test_the_decoder_s_wheel_is_of_a_platform_and_holds_the_library_alone(clone: Path) -> None:
    (wheel,) = (clone / "dist").glob("eventconsumer_decoder-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (library,) = (entry for entry in archive.infolist() if entry.filename.endswith(".so"))
        content = archive.read(library)
    folder = ROOT / DECODER / "python/eventconsumer_decoder"
    sources = {path.name for path in folder.iterdir() if path.suffix in {".py", ".typed"}}
    assert held == {f"eventconsumer_decoder/{name}" for name in sources} | {library.filename}
    assert library.external_attr >> 16 & 0o777 == 0o644
    for place in (str(clone), str(Path.home()), "/build/.release-"):
        assert place.encode() not in content


def test_the_decoder_s_sources_are_in_its_own_source_distribution_only(clone: Path) -> None:
    held = {}
    for name, content in released(clone).items():
        if name.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                held[name.partition("-")[0]] = {entry.partition("/")[2] for entry in archive.getnames()}
    assert held["eventconsumer_decoder"] >= {"src/lib.rs", "Cargo.toml", "Cargo.lock", "hatch_build.py", "LICENSE"}
    assert not {name for name in held["eventconsumer_decoder"] if name.endswith(".so")}
    assert not {name for name in held["eventconsumer_processor"] if name.startswith("decoder")}


def test_the_bill_of_materials_keeps_to_the_schema_and_names_our_own_wheels(clone: Path) -> None:
    text = (clone / "dist/sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bom = json.loads(text)
    assert all(component["hashes"] for component in bom["components"])
    references = [component["bom-ref"] for component in bom["components"]]
    assert len(references) == len(set(references))
    sums = dict(reversed(line.split()) for line in (clone / "dist/SHA256SUMS").read_text().splitlines())
    digests = {each["content"] for component in bom["components"] for each in component["hashes"]}
    assert {digest for name, digest in sums.items() if name.endswith(WHEEL)} <= digests
    shipped = {component["name"] for component in bom["components"] if component["scope"] == "required"}
    assert {"pydantic", "kopf", "azure-eventhub", "pyspark", "hadoop-azure"} <= shipped
    assert not {"pytest", "azurite", "ruff"} & shipped


@pytest.mark.parametrize(
    ("version", "told"),
    [("99.0.0", "operator/pyproject.toml, version: is"), ("", "VERSION=(not set) is not a version")],
)
def test_another_version_is_refused(clone: Path, version: str, told: str) -> None:
    before = released(clone)
    done = release(clone, version)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert released(clone) == before


def test_a_registry_without_digests_is_refused(clone: Path) -> None:
    done = release(clone, REGISTRY="registry.example.com/team")
    assert done.returncode == 1
    assert "only built images have one" in done.stderr and "Traceback" not in done.stderr


def test_a_working_copy_with_changes_or_a_changelog_without_the_version_is_refused(second: Path) -> None:
    (second / "new.txt").touch()
    changed = release(second)
    assert changed.returncode == 1
    assert "?? new.txt" in changed.stderr and "Commit or stash" in changed.stderr
    (second / "new.txt").unlink()
    changelog = second / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## [{VERSION}]", "## [0.0.1]"))
    git(second, "commit", "--quiet", "--all", "--message", "Without a section")
    without = release(second)
    assert without.returncode == 1
    assert f"CHANGELOG.md has no section of {VERSION}" in without.stderr
    assert not (second / "dist").exists()
