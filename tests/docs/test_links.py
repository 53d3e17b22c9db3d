"""No dead link: files, folders, pictures and headings that a page links to are there."""

import re
import unicodedata
from functools import cache
from pathlib import Path

from .pages import line_at, pages

_CODE = re.compile(r"^ *```.*?^ *```[ \t]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|href|srcset)=\"([^\"]+)\"")


@cache
def headings(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and Python-Markdown both make them, and those that it sets itself."""
    text = path.read_text(encoding="utf-8")
    found: dict[str, int] = {}
    anchors = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)) | set(re.findall(r"\{ *#([\w-]+) *\}", text))
    for title in re.findall(
        r"^#{1,6} +(.+?) *$", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    ):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", unicodedata.normalize("NFKC", plain)).strip().replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        anchors.add(f"{slug}-{count}" if count else slug)
    return frozenset(anchors)


def links(root: Path) -> list[tuple[Path, str, str]]:
    """Every link of every page: the page, its name with the link's line, the link."""
    found = []
    for page in pages():
        text = _CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text(encoding="utf-8"))
        for link in _LINK.finditer(text):
            found.append((page, f"{page.relative_to(root)}:{line_at(text, link.start())}", link[1] or link[2]))
    assert len(found) > 100
    return found


def test_every_link_leads_somewhere(root: Path) -> None:
    dead = []
    for page, where, link in links(root):
        if re.match(r"(https?|mailto):", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            missing = target.relative_to(root) if target.is_relative_to(root) else target
            dead.append(f"{where}: {link}: there is no {missing}")
        elif not target.is_relative_to(root):
            dead.append(f"{where}: {link}: leads out of the repository")
        elif anchor and (target.suffix != ".md" or anchor not in headings(target)):
            dead.append(f"{where}: {link}: {target.name} has no heading of that name")
    assert not dead, "\n".join(dead)
