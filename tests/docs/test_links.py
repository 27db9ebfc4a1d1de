"""Links inside the documentation lead somewhere; what leads elsewhere is https, and is not fetched."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.generate.pages import DOCS, ROOT, anchors, links, pages

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", f"{target}: only https"
            continue
        path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        assert path.exists(), f"{page.relative_to(ROOT)}: {target} does not exist"
        if parts.fragment and path.suffix == ".md":
            assert parts.fragment in anchors(path), f"{page.relative_to(ROOT)}: {target} has no such heading"


def test_pages_of_the_site_link_to_files_and_not_to_folders() -> None:
    """The site offers linked files as downloads; a folder it could not."""
    for page in PAGES:
        if DOCS in page.parents:
            for target in links(page):
                parts = urlsplit(target)
                assert parts.scheme or not parts.path or (page.parent / parts.path).is_file(), (page, target)


def test_there_is_something_to_look_at() -> None:
    assert len(PAGES) > 40
    assert sum(len(links(page)) for page in PAGES) > 150
    assert "what-is-not-protected" in anchors(DOCS / "security.md")
