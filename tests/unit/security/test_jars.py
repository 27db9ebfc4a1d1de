"""The jars of the Spark image are those of one list, and the list has nothing that compiles, loads or serves code."""

import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

JARS = Path(__file__).parents[3] / "spark/jars"
KEPT = (JARS / "kept.txt").read_text().splitlines()
# Scala's compiler and shell, an editor of lines, Hive with its database, web services, other servers and clusters.
UNWANTED = re.compile(
    r"scala-compiler|jline|spark-(repl|hive|connect|pipelines|yarn|streaming|mllib|graphx)|hive|derby|datanucleus|"
    r"jdo|libthrift|jersey|hk2|zookeeper|curator|rocksdb|leveldb|.*-(osx|windows)-"
)


def test_the_list_is_sorted_and_has_nothing_that_runs_code_of_others() -> None:
    assert sorted(set(KEPT)) == KEPT
    assert [jar for jar in KEPT if UNWANTED.match(jar)] == []
    fetched = [line.split()[1] for line in (JARS / "SHA256SUMS").read_text().splitlines()]
    assert set(fetched) <= set(KEPT), "the image would lack them"


def test_all_other_files_are_removed(tmp_path: Path) -> None:
    for name in (*KEPT, "scala-compiler-2.13.17.jar", ".hidden.jar"):
        (tmp_path / name).touch()
    (tmp_path / "connect-repl").mkdir()
    (tmp_path / "connect-repl/spark-connect-client.jar").touch()
    subprocess.run([JARS / "keep.sh", tmp_path], check=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == KEPT


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    for name in KEPT[1:]:
        (tmp_path / name).touch()
    ended = subprocess.run([JARS / "keep.sh", tmp_path], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f": {KEPT[0]}. Change spark/jars/kept.txt" in ended.stderr


def test_the_image_removes_them_after_all_were_added() -> None:
    dockerfile = (JARS.parent / "Dockerfile").read_text()
    added, removed = dockerfile.index("mv /tmp/jars/*.jar"), dockerfile.index("keep.sh /opt/venv/spark/jars")
    assert added < removed < dockerfile.index("COPY --from=dependencies /opt/venv")


def test_the_build_runs_no_code_of_the_jars_repository(tmp_path: Path) -> None:
    """No Maven, whose plugins come without a digest: a plain download is checked before it is used."""
    recipe = (JARS / "fetch.sh").read_text() + (JARS.parent / "Dockerfile").read_text()
    assert not re.search(r"\bmvn\b|install .*\bmaven\b", recipe)
    assert "<plugin>" not in (JARS / "pom.xml").read_text()

    mirror = tmp_path / "mirror"
    for jar in ElementTree.parse(JARS / "pom.xml").findall(".//{*}dependency"):
        group, name, version = (jar.findtext("{*}" + tag, "") for tag in ("groupId", "artifactId", "version"))
        folder = mirror / group.replace(".", "/") / name / version
        folder.mkdir(parents=True)
        (folder / f"{name}-{version}.jar").write_text("of someone else")
    environment = os.environ | {"MAVEN_MIRROR": mirror.as_uri()}
    command = [JARS / "fetch.sh", tmp_path / "jars"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "do not match SHA256SUMS" in ended.stderr
    assert not (tmp_path / "jars").exists()
