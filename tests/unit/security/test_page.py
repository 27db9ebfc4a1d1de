"""The page about security names tests, files and settings that exist."""

import re
from pathlib import Path

from eventconsumer_operator.settings import parse_settings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/security.md").read_text()
NAMED = re.findall(r"`(tests/[^`:]+)::(\w+)`", PAGE)


def test_every_test_it_names_exists() -> None:
    assert len(NAMED) > 25
    missing = [
        f"{file}::{name}"
        for file, name in NAMED
        if not re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), flags=re.MULTILINE)
    ]
    assert not missing


def test_every_file_it_names_exists() -> None:
    files = re.findall(r"`((?:helm|spark|tests)/[^`:]+)", PAGE)
    pages = re.findall(r"\]\(([^)#]+)", PAGE)
    assert "helm/eventconsumer/templates/rbac.yaml" in files and "how-to/spark-launchers.md" in pages
    assert [path for path in (*files, *(f"docs/{page}" for page in pages)) if not (ROOT / path).exists()] == []


def test_each_control_names_a_test() -> None:
    table = PAGE.partition("## Attacks and controls")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| attacker | attack")]
    assert len(rows) > 15
    assert all("::test_" in row for row in rows)


def test_every_flag_it_names_is_one() -> None:
    flags = sorted(set(re.findall(r"`(--[a-z-]+)`", PAGE)))
    assert "--storage-suffix" in flags
    plain = {"--network-policies", "--allow-insecure-endpoints"}
    values = {
        "--spark-launcher": "Kubeflow",
        "--egress-cidr": "10.1.0.0/16",
        "--env-prefix": "SHOP_",
        "--api-server-port": "443",
        "--notice-endpoint": "https://x.example/",
        "--schema-registry": "https://x.example",
    }
    given = [part for flag in flags for part in ([flag] if flag in plain else [flag, values.get(flag, "x.example")])]
    images = ["--processor-image", "p", "--spark-image", "s"]
    parse_settings([*images, *given], {"POD_NAMESPACE": "here"})
