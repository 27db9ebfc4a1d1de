"""What is installed is what was chosen: wheels by hash, in development and in every image."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
DOCKERFILES = sorted(path for path in ROOT.glob("*/Dockerfile") if path.parent.name != "local")
ALL_DOCKERFILES = sorted(path for path in ROOT.rglob("Dockerfile") if "node_modules" not in path.parts)
BY_DIGEST = re.compile(r"[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_has_hashes(path: Path) -> None:
    text = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.MULTILINE)
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip()]
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+", entry.strip()), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_the_files_that_images_need_are_there() -> None:
    assert {"operator.txt", "processor.txt", "spark.txt"} <= {path.name for path in REQUIREMENTS}
    assert {"operator", "processor_image", "spark"} <= {path.parent.name for path in DOCKERFILES}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_images_install_by_hash_only(path: Path) -> None:
    text = path.read_text().replace("\\\n", " ")
    installs = [part for line in text.splitlines() for part in line.split("&&") if re.search(r"pip install", part)]
    assert installs
    for install in installs:
        # Our own distributions come from the build context, without dependencies; everything else by hash.
        assert "--require-hashes" in install or "--no-deps" in install, install
        # A source distribution runs a build backend, which isolation takes from the index without a hash.
        words = install.split()
        assert "--only-binary" in words and ("--no-binary" not in words or "--no-build-isolation" in words), install


def test_the_development_environment_builds_with_pinned_backends() -> None:
    text = (ROOT / "local/bootstrap").read_text() + (ROOT / "Makefile").read_text()
    installs = [line for line in text.splitlines() if re.search(r"uv\S* pip (sync|install) .*--require-hashes", line)]
    assert len(installs) == 4
    for install in installs:
        assert "--build-constraints requirements/build.txt" in install, install


@pytest.mark.parametrize("path", ALL_DOCKERFILES, ids=lambda path: path.parent.name)
def test_base_images_of_others_are_named_by_digest(path: Path) -> None:
    text = path.read_text()
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, flags=re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, flags=re.MULTILINE))
    bases = {
        re.sub(r"\$\{(\w+)\}", lambda found: defaults.get(found[1], ""), base)
        for base in re.findall(r"^FROM (\S+)", text, flags=re.MULTILINE)
        if base not in stages
    }
    assert bases
    for base in bases - {""}:  # the builder names an image of the project, which has no default
        assert BY_DIGEST.fullmatch(base), f"{base} can be another image tomorrow"


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_images_run_as_an_unprivileged_user(path: Path) -> None:
    users = re.findall(r"^USER\s+(\S+)", path.read_text(), flags=re.MULTILINE)
    assert users and users[-1].partition(":")[0] == "65532"


def test_the_host_s_image_compiles_its_decoder_offline() -> None:
    text = (ROOT / "processor_image/Dockerfile").read_text().replace("\\\n", " ")
    (build,) = re.findall(r"cargo build [^&]*", text)
    assert {"--locked", "--offline"} <= set(build.split())
