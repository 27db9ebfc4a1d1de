"""Blocks of code in the documentation: each says what it is, and what is Python or JSON can be read as such."""

import ast
import json
import re

import pytest

from docs.generate.pages import ROOT, Block, blocks, pages

BLOCKS = [block for page in pages() for block in blocks(page)]
LANGUAGES = {
    "",
    "sh",
    "text",
    "yaml",
    "python",
    "json",
    "promql",
    "dockerfile",
    "sql",
    "scala",
    "java",
    "csharp",
    "xml",
}


def python(block: Block) -> bool:
    return block.language == "python" or (not block.language and block.text.startswith(("from ", "import ")))


@pytest.mark.parametrize("block", [block for block in BLOCKS if python(block)], ids=str)
def test_python_compiles_and_imports_what_there_is(block: Block) -> None:
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("eventconsumer_"):
            module = __import__(node.module, fromlist=[name.name for name in node.names])
            for name in node.names:
                assert hasattr(module, name.name), f"{block}: {node.module} has no {name.name}"


def test_the_page_of_handlers_shows_the_example_that_tests_run() -> None:
    source = (ROOT / "processor_image/examples/handler/masking.py").read_text()
    shown = [block.text.strip() for block in BLOCKS if block.text.startswith("class Masking(")]
    assert [text in source for text in shown] == [True]


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "json"], ids=str)
def test_json_can_be_read(block: Block) -> None:
    json.loads(block.text)


def test_languages_are_known() -> None:
    assert {block.language for block in BLOCKS} <= LANGUAGES


def test_no_page_holds_what_is_only_of_some_machine() -> None:
    for page in pages():
        assert not re.search(r"/(root|home|work|tmp)/\w", page.read_text()), page.relative_to(ROOT)
