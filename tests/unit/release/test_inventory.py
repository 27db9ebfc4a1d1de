"""What lock files pin: all of it, each with a digest that is the file's own."""

import base64
import hashlib
import json
import tomllib
from pathlib import Path

import pytest

from eventconsumer_release import inventory, materials, versions
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.inventory import Pinned

ROOT = Path(__file__).parents[3]
ONE, TWO = hashlib.sha256(b"1").hexdigest(), hashlib.sha256(b"2").hexdigest()


def test_requirements_with_extras_markers_and_several_files() -> None:
    text = (
        f"# a comment\nazure-core[aio]==1.2 \\\n    --hash=sha256:{ONE} \\\n    --hash=sha256:{TWO}\n"
        f"cffi==2.1.1 ; python_version < '4' \\\n    --hash=sha256:{TWO}\n"
    )
    assert list(inventory.pip(text)) == [
        Pinned("pypi", "", "azure-core", "1.2", (("sha256", ONE), ("sha256", TWO))),
        Pinned("pypi", "", "cffi", "2.1.1", (("sha256", TWO),)),
    ]


def test_npm_with_scopes_nested_packages_and_aliases() -> None:
    digest = hashlib.sha512(b"1")
    integrity = "sha512-" + base64.b64encode(digest.digest()).decode()
    packages = {
        "": {"name": "ours", "version": "0"},
        "node_modules/a": {"version": "1.0.0", "integrity": integrity},
        "node_modules/a/node_modules/@s/b": {"version": "2.0.0", "integrity": integrity},
        "node_modules/alias": {"name": "real", "version": "3.0.0", "integrity": integrity},
    }
    digests = (("sha512", digest.hexdigest()),)
    assert list(inventory.npm(json.dumps({"packages": packages}))) == [
        Pinned("npm", "", "a", "1.0.0", digests),
        Pinned("npm", "@s", "b", "2.0.0", digests),
        Pinned("npm", "", "real", "3.0.0", digests),
    ]


def test_go_modules_but_not_their_go_mod_alone() -> None:
    digest = hashlib.sha256(b"1")
    h1 = "h1:" + base64.b64encode(digest.digest()).decode()
    text = f"k8s.io/api v0.1.0 {h1}\nk8s.io/api v0.1.0/go.mod {h1}\nk8s.io/old v0.0.1/go.mod {h1}\n"
    assert list(inventory.go(text)) == [Pinned("golang", "k8s.io", "api", "v0.1.0", (("sha256", digest.hexdigest()),))]


def pom(*artifacts: str) -> str:
    entries = "".join(
        f"<dependency><groupId>g</groupId><artifactId>{each}</artifactId><version>1</version></dependency>"
        for each in artifacts
    )
    return f'<project xmlns="http://maven.apache.org/POM/4.0.0"><dependencies>{entries}</dependencies></project>'


def test_jars_must_agree_with_their_digests() -> None:
    sums = f"{ONE}  a-1.jar\n"
    assert list(inventory.jars(pom("a"), sums)) == [Pinned("maven", "g", "a", "1", (("sha256", ONE),))]
    for named, told in ((("a", "b"), "b 1 is pinned without a digest"), ((), "names a-1.jar")):
        with pytest.raises(ReleaseError, match=told):
            list(inventory.jars(pom(*named), sums))


def test_a_package_without_a_digest_is_refused() -> None:
    with pytest.raises(ReleaseError, match="a 1 is pinned without a digest: make lock"):
        list(inventory.pip("a==1\n"))
    with pytest.raises(ReleaseError, match=r"a 1\.0\.0 is pinned without a digest"):
        list(inventory.npm(json.dumps({"packages": {"node_modules/a": {"version": "1.0.0"}}})))


def test_nothing_of_this_repository_s_lock_files_is_left_out() -> None:
    found = list(materials.pinned(ROOT))
    for image in ("operator", "processor", "spark"):
        lines = (ROOT / f"requirements/{image}.txt").read_text().splitlines()
        pins = sum("==" in line and not line.startswith((" ", "#")) for line in lines)
        assert sum(user == f"image {image}" and each.kind == "pypi" for user, each in found) == pins > 0
    local = {(each.name, each.version) for user, each in found if user == materials.LOCAL and each.kind == "pypi"}
    for path in (ROOT / "requirements").glob("*.txt"):
        if path.stem not in versions.IMAGES:
            assert {(each.name, each.version) for each in inventory.pip(path.read_text())} <= local, path.name
    jars = (ROOT / "spark/jars/SHA256SUMS").read_text().splitlines()
    assert {each.digests[0][1] for _, each in found if each.kind == "maven"} == {line.split()[0] for line in jars}
    sums = [path.read_text() for path in (ROOT / "local/cluster/tools").glob("*/go.sum")]
    modules = {tuple(line.split()[:2]) for text in sums for line in text.splitlines() if "/go.mod " not in line}
    names = {(f"{each.namespace}/{each.name}".lstrip("/"), each.version) for _, each in found if each.kind == "golang"}
    assert names == modules
    locked = tomllib.loads((ROOT / versions.DECODER / "Cargo.lock").read_text())["package"]
    assert [crate["name"] for crate in locked] == ["eventconsumer-decoder"]  # crates of others would be materials, too
