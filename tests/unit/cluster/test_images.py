"""An image's tag is its content: what a Dockerfile copies, and nothing else."""

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from local_cluster.errors import ClusterError
from local_cluster.images import catalog
from local_cluster.images.buildah import build_arguments
from local_cluster.images.context import Dockerfile, content_hash, context_files, parse_dockerfile, stage
from local_cluster.layout import REPOSITORY
from local_cluster.runtime import single_binary_archive

DOCKERFILE = """\
ARG BASE_IMAGE=python:3.11
FROM ${BASE_IMAGE} AS build
# COPY commented out
ARG PIP_CERT
COPY requirements/x.txt /tmp/
RUN true \\
    # a comment inside
    && COPY_IS_NO_INSTRUCTION_HERE=1 true
FROM ${BASE_IMAGE}
COPY --from=build /opt /opt
COPY --chown=1:1 src/a \\
     src/b /app/
ADD ["with blank", "/x"]
"""


def test_a_dockerfile_is_read_for_sources_and_arguments() -> None:
    assert parse_dockerfile(DOCKERFILE) == Dockerfile(
        sources=("requirements/x.txt", "src/a", "src/b", "with blank"), arguments=frozenset({"BASE_IMAGE", "PIP_CERT"})
    )


@pytest.fixture
def context(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "src/a/__pycache__").mkdir(parents=True)
    (root / "src/a/one.py").write_text("1")
    (root / "src/a/__pycache__/one.pyc").write_bytes(b"x")
    (root / "src/a/compiled.so").write_bytes(b"x")
    (root / "src/b.py").write_text("2")
    (root / "unrelated").write_text("3")
    return root


def test_context_files_are_those_copied_without_caches(context: Path) -> None:
    assert context_files(context, ["src/a", "src/*.py"]) == [Path("src/a/one.py"), Path("src/b.py")]
    with pytest.raises(ClusterError, match="src/none"):
        context_files(context, ["src/none"])


def test_the_hash_follows_content_name_and_mode_but_not_time(context: Path) -> None:
    files = context_files(context, ["src"])
    first = content_hash(context, files, "base:1")
    os.utime(context / "src/b.py", (1, 1))
    assert content_hash(context, files, "base:1") == first
    assert content_hash(context, files, "base:2") != first
    (context / "src/b.py").chmod(0o755)
    executable = content_hash(context, files, "base:1")
    assert executable != first
    (context / "src/b.py").write_text("2 ")
    assert content_hash(context, files, "base:1") not in {first, executable}


def test_content_does_not_flow_from_one_file_to_the_next(tmp_path: Path) -> None:
    hashes = set()
    for first, second in ((b"1", b"23"), (b"12", b"3"), (b"123", b""), (b"", b"123"), (b"23", b"1")):
        (tmp_path / "a").write_bytes(first)
        (tmp_path / "b").write_bytes(second)
        hashes.add(content_hash(tmp_path, [Path("a"), Path("b")]))
    assert len(hashes) == 5


def test_a_staged_context_is_the_same_wherever_it_was_cloned(context: Path, tmp_path: Path) -> None:
    files = context_files(context, ["src"])
    (context / "src/b.py").chmod(0o600)
    target = tmp_path / "staged"
    target.mkdir()
    stage(context, files, target)
    found = {path.relative_to(target): path.stat() for path in target.rglob("*")}
    assert {str(path) for path in found} == {"src", "src/a", "src/a/one.py", "src/b.py"}
    assert len({stat.st_mtime for stat in found.values()}) == 1
    assert found[Path("src/b.py")].st_mode & 0o777 == 0o644


def test_every_image_of_the_repository_can_be_described() -> None:
    images = [catalog.describe(REPOSITORY, name) for name in (*catalog.DOCKERFILES, *catalog.EXTRA)]
    usual = {"operator", "processor", "spark", "emulator", "azurite"}
    assert {image.name for image in images} == {*usual, "handler", "kubeflow"}
    assert set(catalog.DOCKERFILES) == usual
    for image in images:
        assert image.files or image.programs, f"{image.name} copies nothing"
        assert {name for name, _ in image.arguments} <= image.instructions.arguments


def copied(root: Path, *paths: str) -> Path:
    """A copy of parts of the repository, without compiled files."""
    for path in paths:
        shutil.copytree(REPOSITORY / path, root / path, ignore=shutil.ignore_patterns("__pycache__", "*.so", "target"))
    return root


def test_the_host_s_image_and_images_on_it_follow_their_sources_and_no_compiled_file(tmp_path: Path) -> None:
    root = copied(tmp_path, "processor_image", "crds", "storage", "requirements")
    decoder = root / "processor_image/decoder"
    first = catalog.describe(root, "processor")
    assert dict(catalog.describe(root, "handler").arguments) == {"PROCESSOR_IMAGE": first.reference}
    (decoder / "target/release").mkdir(parents=True)
    for library in ("target/release", "python/eventconsumer_decoder", "src"):
        (decoder / library / "libeventconsumer_decoder.so").write_bytes(b"of this machine")
    beside = catalog.describe(root, "processor")
    assert (beside.files, beside.tag) == (first.files, first.tag)
    held = {str(path.relative_to("processor_image/decoder")) for path in first.files if "decoder" in path.parts}
    sources = {"Cargo.toml", "Cargo.lock", "src/lib.rs", "python/eventconsumer_decoder/__init__.py"}
    assert held >= sources
    tags = {first.tag}
    for path in (
        *(decoder / name for name in sources),
        root / "processor_image/src/eventconsumer_host/host/host.py",
    ):
        with path.open("a") as source:
            source.write("\n")
        tags.add(catalog.describe(root, "processor").tag)
    assert len(tags) == 2 + len(sources)


def test_an_image_with_a_program_changes_with_the_version_of_the_program(tmp_path: Path) -> None:
    copied(tmp_path, "spark", "crds", "storage", "requirements", "local/cluster")
    before = catalog.describe(tmp_path, "kubeflow", cache=tmp_path / "cache")
    assert [program.name for program in before.programs] == ["spark-operator"]
    assert before.programs[0].is_relative_to(tmp_path / "cache")
    with (tmp_path / "local/cluster/tools/kubeflow/go.mod").open("a") as pins:
        pins.write("// another version\n")
    after = catalog.describe(tmp_path, "kubeflow", cache=tmp_path / "cache")
    assert after.tag != before.tag and after.programs[0] != before.programs[0]


def test_only_older_versions_of_our_images_are_outdated() -> None:
    image = catalog.describe(REPOSITORY, "azurite")
    old, used = f"{image.repository}:old", f"{image.repository}:used"
    held = {image.reference, old, used, "docker.io/library/redis:7"}
    assert catalog.outdated(held, [image], keep={used}) == {old}
    # Another registry is another name with the same tag.
    there = catalog.describe(REPOSITORY, "azurite", "registry.example.com:5000/team")
    assert there.reference == image.reference.replace("localhost/", "registry.example.com:5000/team/")
    assert there.repository == "registry.example.com:5000/team/eventconsumer/azurite"


def test_build_arguments_are_those_declared() -> None:
    declared = frozenset({"BASE_IMAGE", "PIP_CERT", "PIP_INDEX_URL", "NPM_CONFIG_REGISTRY"})
    environment = {"NPM_CONFIG_REGISTRY": "https://npm.example", "MAVEN_MIRROR": "https://maven.example", "HOME": "/x"}
    assert build_arguments(declared, environment, "https://pypi.example/simple") == {
        "NPM_CONFIG_REGISTRY": "https://npm.example",
        "PIP_CERT": "/run/build-ca.crt",
        "PIP_INDEX_URL": "https://pypi.example/simple",
    }


def test_an_image_of_one_program_is_a_valid_archive() -> None:
    elf = b"\x7fELF" + bytes(14) + b"\x3e\x00" + b"code"
    archive = single_binary_archive(elf, "localhost/x:1", "/pause")
    assert archive == single_binary_archive(elf, "localhost/x:1", "/pause")
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        held = {each.name: found.read() for each in outer if (found := outer.extractfile(each))}
    (manifest,) = json.loads(held["manifest.json"])
    with tarfile.open(fileobj=io.BytesIO(held[manifest["Layers"][0]])) as layer:
        program = layer.getmember("pause")
    assert manifest["RepoTags"] == ["localhost/x:1"]
    assert json.loads(held[manifest["Config"]])["architecture"] == "amd64"
    assert (program.mode, program.size) == (0o755, len(elf))
