"""MkDocs hook: pages are written as GitHub reads them, which Python-Markdown does not always.

GitHub takes a list or a table behind a line of text for one, and what stands two or three blanks deep for a part of the item
above. mdformat reads pages by CommonMark and writes them with the blank lines and the four blanks that Python-Markdown wants.
"""

import mdformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page as Python-Markdown wants it; blocks of mkdocstrings, which CommonMark does not know, stay as they are."""
    if "\n::: " in markdown:
        return markdown
    return mdformat.text(markdown, extensions={"mkdocs", "gfm", "tables"}, options={"compact_tables": True})
