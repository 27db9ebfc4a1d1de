"""The documentation as a site: `make docs` builds it into build/docs. The site loads no external resources."""

project = "EventConsumer"
author = "The EventConsumer authors"
project_copyright = "The EventConsumer authors, Apache-2.0"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # GitHub's anchors of headings, so that links work in both
highlight_language = "text"  # language of code blocks without one

html_theme = "furo"
html_title = "EventConsumer"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": True,
    "footer_icons": [],
}
