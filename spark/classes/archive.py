"""Makes an archive of the Java classes of a batch, with which a driver starts in about 0.6 of the CPU time.

    python3 archive.py TARGET JARS...

Without it each JVM finds, parses and verifies about 17,000 classes. The archive has them in the form of the JVM's
memory, which the JVM maps. It is made in two steps: `training.py` does the work of a small batch while Java lists the
classes that it loads, and Java writes these classes from the jars.

TARGET is a folder: `classes.jsa`, and `classpath`, the list of the jars. Java uses the archive only if its class path
begins with the same jars, unchanged, in the same order, so the list must be in front of Java's class path:
`spark.driver.extraClassPath`. Otherwise Java starts without it, slower, and writes a warning.

Source: docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html; JEP 310.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ARCHIVE, CLASSPATH = "classes.jsa", "classpath"
TRAINING = Path(__file__).with_name("training.py")
_COMMENT, _INVOKER = "#", "@"


def sorted_list(lines: Iterable[str]) -> list[str]:
    """PURE: the list of classes in an order that does not depend on the threads that loaded them.

    Java wants the lines about lambda expressions, which begin with @, after the classes.
    """
    found = {line for line in lines if not line.startswith(_COMMENT)}
    return sorted(found, key=lambda line: (line.startswith(_INVOKER), line))


def make(target: Path, jars: Iterable[Path]) -> None:
    """Make the archive.

    Args:
        target: Folder to write; an existing archive in it is replaced.
        jars: Folders with jars.

    Raises:
        CalledProcessError: Spark or Java failed; their output is on standard output.
    """
    classpath = ":".join(str(jar) for folder in jars for jar in sorted(folder.glob("*.jar")))
    target.mkdir(parents=True, exist_ok=True)
    archive = target / ARCHIVE
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "listed"
        _train(classpath, listed, folder)
        chosen = Path(folder) / "classes"
        chosen.write_text("\n".join(sorted_list(listed.read_text().splitlines())) + "\n")
        # With G1 the archive has objects, too; the other collectors use it without them.
        options = ["-XX:+UseG1GC", "-Xlog:disable", "-Xlog:all=error:stderr"]
        files = [f"-XX:SharedClassListFile={chosen}", f"-XX:SharedArchiveFile={archive}"]
        command = ["java", "-Xshare:dump", *options, *files, "-cp", classpath]
        subprocess.run(command, check=True, cwd=folder, env=_environment())
    archive.chmod(0o644)
    (target / CLASSPATH).write_text(classpath)


def _train(classpath: str, listed: Path, folder: str) -> None:
    """Do the work of a batch, and list the classes."""
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": classpath,
        "spark.driver.extraJavaOptions": f"-XX:DumpLoadedClassList={listed} -XX:TieredStopAtLevel=1",
        "spark.driver.defaultJavaOptions": "-Xshare:auto",
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    submit = Path(sys.executable).with_name("spark-submit")
    command = [str(submit) if submit.exists() else "spark-submit", *options, str(TRAINING), folder]
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}  # spark-submit looks for Spark with Python
    subprocess.run(command, check=True, cwd=folder, env=_environment() | own)


def _environment() -> dict[str, str]:
    """Without options for Java, on which the archive must not depend."""
    names = ("PATH", "HOME", "LANG", "PYTHONPATH", "SPARK_HOME", "SPARK_CONF_DIR")
    return {name: os.environ[name] for name in names if name in os.environ}


if __name__ == "__main__":
    made, *folders = (Path(argument).absolute() for argument in sys.argv[1:])
    try:
        make(made, folders)
    except subprocess.CalledProcessError as error:  # its text would have all jars
        sys.exit(f"{error.cmd[0]} ended with exit code {error.returncode}; its output is above")
