"""MkDocs hook: links that leave docs/ work on the site too, and the site has pages for lists that would only be kept twice.

In the repository a link such as ``../dashboards/alerts.yml`` leads to the file. The site has no repository around it: a file
that a page links to is shown there as a page of its own (Markdown as it is, else as code), a folder is named without a link.
"""

import os
import posixpath
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[ \t]*$", re.DOTALL | re.MULTILINE)
_LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".env": "sh"}

# Files of the repository that the navigation names.
_PLACES = {"CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside docs/ that some page links to, and for those that these link to."""
    root = Path(config.docs_dir).parent
    waiting = [(page.src_uri, page.content_string) for page in files.documentation_pages()]
    added = {place: name for name, place in _PLACES.items()}
    waiting += [(place, (root / name).read_text(encoding="utf-8")) for place, name in added.items()]
    while waiting:
        place, text = waiting.pop()
        for link in LINK.finditer(_without_code(text)):
            target = _target(root, added.get(place, f"docs/{place}"), link[2])
            if target is not None and not target.startswith("docs/") and (root / target).is_file():
                new = _place(target)
                if new not in added:
                    added[new] = target
                    if target.endswith(".md"):
                        waiting.append((new, (root / target).read_text(encoding="utf-8")))
    for place, name in added.items():
        inclusion = InclusionLevel.INCLUDED if place in _PLACES.values() else InclusionLevel.NOT_IN_NAV
        page = File.generated(config, place, content=_content(root / name, name), inclusion=inclusion)
        files.append(page)
    config.extra["repository_files"] = added
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ to the pages that `on_files` made."""
    root, added = Path(config.docs_dir).parent, config.extra["repository_files"]
    source = added.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    # The search finds pages: neither decisions nor files of the repository.
    if source == "docs/decisions.md" or (source in added.values() and source not in _PLACES):
        page.meta["search"] = {"exclude": True}

    def led(link: re.Match[str]) -> str:
        target = _target(root, source, link[2])
        if target is None:
            return link[0]
        inside = target.removeprefix("docs/") if target.startswith("docs/") else _place(target)
        if (root / target).is_dir():
            return link[1]
        return f"[{link[1]}]({posixpath.relpath(inside, posixpath.dirname(page.file.src_uri) or '.')}{link[3] or ''})"

    pieces, last = [], 0
    for fence in _FENCE.finditer(markdown):
        pieces += [LINK.sub(led, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*pieces, LINK.sub(led, markdown[last:])])


def _without_code(text: str) -> str:
    return _FENCE.sub("", text)


def _target(root: Path, source: str, link: str) -> str | None:
    """The file or folder that a link in ``source`` leads to, relative to the repository; None if outside, or an address."""
    if re.match(r"[a-z]+:", link):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return None if target.startswith("..") or not (root / target).exists() else target


def _place(name: str) -> str:
    """Where a file of the repository stands on the site."""
    path = PurePosixPath(name)
    return _PLACES.get(name) or (f"repository/{name}" if path.suffix == ".md" else f"repository/{name}.md")


def _content(path: Path, name: str) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    fence = "`" * 4
    return f"# {name}\n\n{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip(os.linesep)}\n{fence}\n"
