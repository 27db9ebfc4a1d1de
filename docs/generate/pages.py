"""The documentation for its tests: pages, their blocks of code, names in code style, links.

`python -m docs.generate.pages` lists external links; they are not fetched.
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BESIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "helm/eventconsumer/README.md",
    "local/cluster/README.md",
    "local/emulator/README.md",
    "processor_image/examples/handler/README.md",
    "spark/README.md",
)
"""Pages beside their code."""


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        page: Its page.
        line: Its first line, counted from 1.
        language: Its language; empty if it names none, and for indented blocks.
        text: Its content.
    """

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a block: its words, without comments, continued lines joined."""

    where: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where}: {shlex.join(self.words)}"


def pages() -> list[Path]:
    """All pages, including those beside code."""
    return sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in BESIDE)])


@cache
def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> Iterator[Block]:
    """Blocks of code, without directives of the site such as {toctree}."""
    for token in _tokens(page):
        if token.type in {"fence", "code_block"} and not token.info.startswith("{"):
            line = (token.map or [0])[0] + (2 if token.type == "fence" else 1)
            yield Block(page, line, token.info.strip(), token.content)


def names(page: Path) -> list[str]:
    """Texts in code style."""
    return [child.content for token in _tokens(page) for child in token.children or () if child.type == "code_inline"]


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return "\n".join(token.content for token in _tokens(page) if token.type == "inline")


def links(page: Path) -> list[str]:
    """Targets of links and pictures, unchanged."""
    found = []
    for token in _tokens(page):
        for child in token.children or ():
            if target := child.attrGet("href") or child.attrGet("src"):
                found.append(str(target))
    return found


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as on GitHub and the site, including those of included pages."""
    tokens = _tokens(page)
    included = [token.info.removeprefix("{include}").strip() for token in tokens if token.info.startswith("{include}")]
    found = {name for target in included for name in anchors((page.parent / target).resolve())}
    for before, token in itertools.pairwise(tokens):
        if before.type == "heading_open":
            text = "".join(child.content for child in token.children or () if child.type in {"text", "code_inline"})
            found.add(re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-"))
    return found


_PROGRAMS = ("kubectl", "helm", "make", "eventconsumer", "eventconsumer-operator", "docker", "python", ".venv/bin/")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")


def commands(page: Path) -> Iterator[Command]:
    """Commands in blocks of code without a language, or with a shell."""
    for block in blocks(page):
        if is_shell(block):
            yield from _commands(block)


def is_shell(block: Block) -> bool:
    """Whether a block may have commands."""
    return block.language in {"", "sh", "bash", "console"}


def _commands(block: Block) -> Iterator[Command]:
    for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
        text = line.strip().removeprefix("$ ")
        if not text.startswith(_PROGRAMS) and not _ASSIGNMENT.match(text):
            continue
        try:
            words = shlex.split(text, comments=True)
        except ValueError as error:
            raise AssertionError(f"{block}: {text!r} is not a command: {error}") from error
        while words and _ASSIGNMENT.fullmatch(words[0]):
            del words[0]
        for part in _parts(words):
            if part and part[0].startswith(_PROGRAMS):
                yield Command(str(block), tuple(part))


def _parts(words: list[str]) -> Iterator[list[str]]:
    """Commands of a pipe or a list."""
    part: list[str] = []
    for word in words:
        if word in {"|", "&&", ";", "||"}:
            yield part
            part = []
        else:
            part.append(word)
    yield part


if __name__ == "__main__":
    for outer in sorted({target for page in pages() for target in links(page) if target.startswith("http")}):
        print(outer)
