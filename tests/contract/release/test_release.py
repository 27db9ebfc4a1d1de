"""A release of this very tree, built twice as two people would: the same bytes, and each file usable."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from docs.generate.pages import blocks
from eventconsumer_release.oci import Image
from eventconsumer_release.signing import Key
from eventconsumer_release.versions import DECODER, IMAGES, distributions
from tests.support.signed_release import REGISTRY, locked_version

ROOT = Path(__file__).parents[3]
VERSION = str(yaml.safe_load((ROOT / "helm/eventconsumer/Chart.yaml").read_text())["version"])
WHEEL = ".whl"


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def release(root: Path, version: str = VERSION, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make release VERSION=… IMAGES=no` in another clone, with this environment's programs."""
    command = ["eventconsumer_release", version, "--root", str(root)]
    return run(command, {"IMAGES": "no", "UNSIGNED": "yes"} | environment)


def signed_release(root: Path, key: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A release with signatures and small images in another clone."""
    return run(["tests.support.signed_release", str(root), VERSION, str(key)], environment)


def run(module: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        umask=int(environment.get("UMASK", "22"), 8),
    )


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
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key of the form that the documentation names, and the public key beside it."""
    path = tmp_path_factory.mktemp("key") / "release.key"
    for command in (
        f"openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {path}",
        f"openssl pkey -in {path} -pubout -out {path.with_suffix('.pub')}",
    ):
        subprocess.run(command.split(), check=True)
    return path


@pytest.fixture(scope="module")
def clone(origin: Path, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first clone, in which a signed release was built."""
    folder = tmp_path_factory.mktemp("one") / "clone"
    git(origin, "clone", "--quiet", str(origin), str(folder))
    done = signed_release(folder, key)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def dist(clone: Path, key: Path, tmp_path: Path) -> Path:
    """A copy of the signed release beside its public key, to verify or to change."""
    folder = tmp_path / "dist"
    shutil.copytree(clone / "dist", folder)
    shutil.copy(key.with_suffix(".pub"), folder)
    return folder


@pytest.fixture
def second(origin: Path, tmp_path: Path) -> Iterator[Path]:
    """Another clone, at a path of another length."""
    folder = tmp_path / "a-second" / "clone-of-somebody-else"
    git(origin, "clone", "--quiet", str(origin), str(folder))
    yield folder


def test_two_builds_are_the_same_bytes(clone: Path, second: Path, key: Path) -> None:
    (second / "dist").mkdir()
    (second / "dist/of-an-earlier-build").touch()
    (second / "crds/src/eventconsumer_api/__pycache__").mkdir()
    (second / "crds/src/eventconsumer_api/__pycache__/x.pyc").write_bytes(b"trash that Git ignores")
    done = signed_release(second, key, UMASK="77", TZ="Pacific/Auckland", LC_ALL="C", PYTHONHASHSEED="7")
    assert done.returncode == 0, done.stderr
    one, two = released(clone), released(second)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert git(second, "status", "--porcelain") == ""


def test_every_file_is_there_and_its_checksum_holds(clone: Path) -> None:
    names = set(released(clone))
    assert names >= {f"eventconsumer-{VERSION}.tgz", "install.yaml", "sbom.cdx.json", "CHANGELOG.md", "SHA256SUMS"}
    for image in IMAGES:
        assert names >= {f"eventconsumer-{image}-{VERSION}.{end}" for end in ("oci.tar", "cdx.json", "signatures.tar")}
    assert sum(name.endswith(WHEEL) for name in names) == len(distributions(ROOT))
    assert sum(name.endswith(".tar.gz") for name in names) == len(distributions(ROOT))
    check = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=clone / "dist",
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert {line.removesuffix(": OK") for line in check.splitlines()} == names - {
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }


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
        [sys.executable, "-m", "eventconsumer_api.resource.crdgen"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    ).stdout
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


def test_the_bill_of_materials_of_an_image_names_the_packages_in_it(clone: Path) -> None:
    text = (clone / f"dist/eventconsumer-operator-{VERSION}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bom = json.loads(text)
    image = Image(clone / f"dist/eventconsumer-operator-{VERSION}.oci.tar")
    assert bom["metadata"]["component"]["version"] == image.digest
    pyyaml = locked_version(ROOT, "operator", "pyyaml")
    found = {component["purl"]: component for component in bom["components"] if component["type"] == "library"}
    assert set(found) == {
        "pkg:deb/debian/libssl3@3.0.19-1~deb12u2?arch=amd64&distro=debian-12&upstream=openssl",
        f"pkg:pypi/pyyaml@{pyyaml}",
        "pkg:maven/org.apache.hadoop/hadoop-azure@3.4.1",
        f"pkg:cargo/eventconsumer-decoder@{VERSION}",
    }
    without = [purl for purl, component in found.items() if not component.get("hashes")]
    assert [purl.partition("/")[0] for purl in without] == ["pkg:deb"]  # dpkg does not keep the digest of a package


def test_chart_and_install_yaml_name_images_by_digest(clone: Path) -> None:
    digests = {image: Image(clone / f"dist/eventconsumer-{image}-{VERSION}.oci.tar").digest for image in IMAGES}
    images = {image: f"{REGISTRY}/eventconsumer/{image}:{VERSION}@{digest}" for image, digest in digests.items()}
    with tarfile.open(clone / f"dist/eventconsumer-{VERSION}.tgz") as chart:
        values = yaml.safe_load(chart.extractfile("eventconsumer/values.yaml"))  # type: ignore[arg-type]
    assert {image: values["image"][image] for image in IMAGES} == images
    text = (clone / "dist/install.yaml").read_text()
    assert all(text.count(reference) == text.count(f"eventconsumer/{image}:") for image, reference in images.items())


DOCUMENTED = [
    command
    for block in blocks(ROOT / "docs/how-to/release.md")
    if block.language == "sh"
    for command in block.text.replace("\\\n", " ").splitlines()
]


def verified(dist: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    """The documented commands of these programs, in a folder with a release, up to the first that fails."""
    script = [line for line in DOCUMENTED if line.split()[0] in programs]
    assert len(script) >= len(programs)
    text = "\n".join(script).replace("0.1.0", VERSION)
    return subprocess.run(["bash", "-ec", text], cwd=dist, check=False, capture_output=True, text=True)


def test_no_command_of_the_documentation_is_left_out() -> None:
    assert {line.split()[0] for line in DOCUMENTED} == {"openssl", "sha256sum", "python3", "mkdir", "tar", "cosign"}


def test_a_release_is_verified_by_openssl_as_documented(dist: Path, clone: Path) -> None:
    done = verified(dist, "openssl", "sha256sum", "python3")
    assert done.returncode == 0, done.stderr
    assert "Verified OK" in done.stdout
    statement = json.loads(done.stdout.splitlines()[-1])
    source = {"name": "source", "digest": {"gitCommit": git(clone, "rev-parse", "HEAD").strip()}}
    assert statement["predicate"]["buildDefinition"]["resolvedDependencies"] == [source]
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    chart = f"eventconsumer-{VERSION}.tgz"
    assert subjects[chart] == sha256((dist / chart).read_bytes()).hexdigest()


@pytest.mark.skipif(shutil.which("cosign") is None, reason="cosign is not installed")
def test_a_release_is_verified_by_cosign_as_documented(dist: Path) -> None:
    done = verified(dist, "mkdir", "tar", "cosign")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [f"eventconsumer-{VERSION}.tgz", "provenance.intoto.json"])
def test_a_changed_file_is_noticed_also_with_new_checksums(dist: Path, name: str) -> None:
    content = bytearray((dist / name).read_bytes())
    digest = sha256(content).hexdigest()
    content[len(content) // 2] ^= 1
    (dist / name).write_bytes(content)
    done = verified(dist, "openssl", "sha256sum")
    assert done.returncode != 0 and f"{name}: FAILED" in done.stdout
    checksums = dist / "SHA256SUMS"
    checksums.write_text(checksums.read_text().replace(digest, sha256(content).hexdigest()))
    done = verified(dist, "openssl", "sha256sum")
    assert done.returncode != 0 and "Verification failure" in done.stdout


def test_a_release_of_another_key_is_noticed(dist: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    (dist / "SHA256SUMS.sig").write_text(Key(other).sign((dist / "SHA256SUMS").read_bytes()))
    assert verified(dist, "openssl").returncode != 0


def test_the_signature_of_an_image_is_over_its_digest(dist: Path, tmp_path: Path) -> None:
    """The parts that cosign reads, verified by OpenSSL; the archive's files are those of one image layout."""
    done = verified(dist, "mkdir", "tar")
    assert done.returncode == 0, done.stderr
    layout = dist / "operator"

    def blob(digest: str) -> bytes:
        content = (layout / "blobs" / digest.replace(":", "/")).read_bytes()
        assert digest == f"sha256:{sha256(content).hexdigest()}"
        return content

    image, sigs, atts = json.loads((layout / "index.json").read_text())["manifests"]
    assert [each["annotations"]["kind"].rpartition("/")[2] for each in (image, sigs, atts)] == ["image", "sigs", "atts"]
    assert image["digest"] == Image(dist / f"eventconsumer-operator-{VERSION}.oci.tar").digest
    (layer,) = json.loads(blob(sigs["digest"]))["layers"]
    payload = json.loads(blob(layer["digest"]))["critical"]
    assert payload["image"] == {"docker-manifest-digest": image["digest"]}
    assert payload["identity"] == {"docker-reference": f"{REGISTRY}/eventconsumer/operator:{VERSION}"}
    (tmp_path / "payload").write_bytes(blob(layer["digest"]))
    (tmp_path / "signature").write_bytes(b64decode(layer["annotations"]["dev.cosignproject.cosign/signature"]))
    command = ["openssl", "dgst", "-sha256", "-verify", dist / "release.pub", "-signature", tmp_path / "signature"]
    subprocess.run([*command, tmp_path / "payload"], check=True, capture_output=True)
    attested = [json.loads(blob(each["digest"])) for each in json.loads(blob(atts["digest"]))["layers"]]
    statements = [json.loads(b64decode(envelope["payload"])) for envelope in attested]
    kinds = ["https://slsa.dev/provenance/v1", "https://cyclonedx.org/bom"]
    assert [statement["predicateType"] for statement in statements] == kinds
    for statement in statements:
        assert image["digest"] in {f"sha256:{subject['digest']['sha256']}" for subject in statement["subject"]}


def test_a_key_in_the_repository_is_refused(clone: Path, key: Path) -> None:
    copied = Path(shutil.copy2(key, clone / "release.key"))
    done = release(clone, UNSIGNED="", SIGNING_KEY=str(copied))
    copied.unlink()
    assert done.returncode == 1
    assert "is in the repository, where it could be committed" in done.stderr


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"UNSIGNED": ""}, "A release is signed: set SIGNING_KEY=<file>"),
        ({"UNSIGNED": "yes", "SIGNING_KEY": "KEY"}, "SIGNING_KEY and UNSIGNED=yes exclude each other"),
        ({"UNSIGNED": "", "SIGNING_KEY": "KEY", "REGISTRY": REGISTRY}, "names its images by registry and digest"),
    ],
)
def test_a_release_that_nobody_could_verify_is_refused(
    clone: Path, key: Path, environment: dict[str, str], told: str
) -> None:
    before = released(clone)
    done = release(clone, **{name: value.replace("KEY", str(key)) for name, value in environment.items()})
    assert done.returncode == 1
    assert told in done.stderr and "Traceback" not in done.stderr
    assert released(clone) == before


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
