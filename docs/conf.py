"""The documentation as a site: `make docs` builds it into build/docs. Nothing in it is loaded from elsewhere."""

project = "EventConsumer"
author = "The EventConsumer authors"
project_copyright = "The EventConsumer authors, Apache-2.0"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # the names that GitHub gives headings, so that a link holds in both
highlight_language = "text"  # of code blocks that name no language

html_theme = "furo"
html_title = "EventConsumer"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": True,
    "footer_icons": [],
}
