"""The site is built without a warning, holds every page, and loads nothing from elsewhere."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate.pages import DOCS, ROOT

LOADING = re.compile(r"<(?:script|img|iframe|source|video|audio|object|embed)\b[^>]*?\b(?:src|data)=\"([^\"]+)\"")
LINKED = re.compile(r"<link\b[^>]*>")
HREF = re.compile(r"\bhref=\"([^\"]+)\"")
NAVIGATION = re.compile(r"\brel=\"(?:index|search|next|prev|canonical)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["-W", "-n", "--keep-going", "-q", "-b", "html", "-d", folder / "doctrees", DOCS, folder / "html"]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_every_page_is_there(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists(), page


def test_every_page_can_be_found_from_the_first(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html").as_posix()
        assert f'href="{name}"' in menu or name == "index.html" or name.startswith(("runbooks/", "migrate/")), name


def loaded(html: str) -> list[str]:
    """What a browser loads with a page."""
    fetched = [tag for tag in LINKED.findall(html) if not NAVIGATION.search(tag)]
    return [*LOADING.findall(html), *(target for tag in fetched for target in HREF.findall(tag))]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = 0
    for page in site.rglob("*.html"):
        for target in loaded(page.read_text()):
            found += 1
            assert not re.match(r"(?:https?:)?//", target), f"{page.relative_to(site)} loads {target}"
    assert found > 100
    for sheet in site.rglob("*.css"):
        for target in re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", sheet.read_text()):
            assert not re.match(r"(?:https?:)?//", target), f"{sheet.relative_to(site)} loads {target}"


def test_loading_from_elsewhere_would_be_found() -> None:
    assert loaded('<script async src="https://cdn.example/x.js">') == ["https://cdn.example/x.js"]
    assert loaded('<link rel="stylesheet" type="text/css" href="//fonts.example/f.css" />') == ["//fonts.example/f.css"]
    assert loaded('<link rel="next" title="x" href="a.html" /><a href="https://x.example">x</a>') == []


def test_pictures_are_of_their_texts() -> None:
    specification = importlib.util.spec_from_file_location("draw", DOCS / "diagrams/draw.py")
    assert specification is not None and specification.loader is not None
    draw = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(draw)
    texts = sorted((DOCS / "diagrams").glob("*.dot"))
    assert {text.stem for text in texts} == {picture.stem for picture in (DOCS / "diagrams").glob("*.svg")}
    for text in texts:
        assert draw.mark(text.read_bytes()) in text.with_suffix(".svg").read_text(), f"{text.name}: run `make diagrams`"


def test_the_readme_is_short_and_has_what_a_newcomer_looks_for() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 130
    for heading in ("See it run", "The resource", "Guarantees", "Figures", "Documentation"):
        assert f"## {heading}" in text


def test_pictures_load_nothing() -> None:
    for picture in DOCS.rglob("*.svg"):
        text = picture.read_text()
        assert not re.search(r"url\([\"']?https?:|@import|<script|<image", text), picture.name
