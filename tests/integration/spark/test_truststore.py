"""A trust store of Java's: the same certificates, whenever it was made, are the same bytes."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "spark/truststore.py"
SPEC = importlib.util.spec_from_file_location("truststore", FILE)
assert SPEC is not None and SPEC.loader is not None
truststore = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(truststore)
KEYTOOL = shutil.which("keytool")
DATE = "Jan 1, 1980"


def keytool(*arguments: str) -> str:
    assert KEYTOOL is not None, "install openjdk-17-jre-headless"
    common = ["-J-Duser.language=en", "-J-Duser.timezone=UTC", "-storepass", truststore.PASSWORD]
    return subprocess.run([KEYTOOL, *arguments, *common], check=True, capture_output=True, text=True).stdout


def store_of(folder: Path, name: str, *certificates: Path, kind: str = "JKS") -> Path:
    store = folder / name
    for number, certificate in enumerate(certificates):
        keytool(
            "-importcert",
            "-noprompt",
            "-alias",
            f"ca-{number}",
            "-file",
            str(certificate),
            "-keystore",
            str(store),
            "-storetype",
            kind,
        )
    return store


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two of the machine's authorities, as files."""
    folder = tmp_path_factory.mktemp("certificates")
    text = Path("/etc/ssl/certs/ca-certificates.crt").read_text()
    found = []
    for number, part in enumerate(text.split("-----END CERTIFICATE-----")[:2]):
        found.append(folder / f"{number}.crt")
        found[-1].write_text(part.strip() + "\n-----END CERTIFICATE-----\n")
    return found


def test_java_reads_it_and_finds_the_same_certificates(tmp_path: Path, certificates: list[Path]) -> None:
    store = store_of(tmp_path, "cacerts", *certificates)
    before = keytool("-list", "-keystore", str(store))
    store.write_bytes(truststore.timeless(store.read_bytes()))
    after = keytool("-list", "-keystore", str(store))
    assert after.count(DATE) == 2 and DATE not in before
    prints = [[line for line in text.splitlines() if "SHA-256" in line] for text in (before, after)]
    assert len(prints[0]) == 2 and prints[0] == prints[1]


def test_two_stores_made_at_different_times_are_the_same(tmp_path: Path, certificates: list[Path]) -> None:
    one, two = (store_of(tmp_path, name, *certificates).read_bytes() for name in ("one", "two"))
    assert one != two
    assert truststore.timeless(one) == truststore.timeless(two)


def test_what_is_no_such_store_is_refused(tmp_path: Path, certificates: list[Path]) -> None:
    other = store_of(tmp_path, "p12", *certificates, kind="PKCS12").read_bytes()
    with pytest.raises(ValueError, match="not a JKS store"):
        truststore.timeless(other)
    store = store_of(tmp_path, "cacerts", *certificates).read_bytes()
    with pytest.raises(ValueError, match="longer than its entries"):
        truststore.timeless(store[:-20] + b"more" + store[-20:])
