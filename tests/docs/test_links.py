"""No dead link: files, folders, pictures and headings that a page links to are there. Addresses on the web are only listed."""

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

_CODE = re.compile(r"^ *```.*?^ *```[ \t]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|href|srcset)=\"([^\"]+)\"")

# Where pages may lead on the web; none is fetched. Add a host here on purpose.
HOSTS = {
    "arxiv.org",
    "docs.nvidia.com",
    "doi.org",
    "github.com",
    "keepachangelog.com",
    "semver.org",
    "www.usenix.org",
}


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


def links(page: Path) -> list[str]:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [first or second for first, second in _LINK.findall(text)]


def test_every_link_leads_somewhere(page: Path, root: Path) -> None:
    dead = []
    for link in links(page):
        if re.match(r"(https?|mailto):", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            dead.append(f"{link}: there is no {target.relative_to(root) if target.is_relative_to(root) else target}")
        elif not target.is_relative_to(root):
            dead.append(f"{link}: leads out of the repository")
        elif anchor and (target.suffix != ".md" or anchor not in headings(target)):
            dead.append(f"{link}: {target.name} has no heading of that name")
    assert not dead, f"{page.relative_to(root)}: " + "; ".join(dead)


def test_addresses_on_the_web_are_of_known_hosts(page: Path, root: Path) -> None:
    hosts = {found[1] for link in links(page) if (found := re.match(r"https?://([^/:?#]+)", link))}
    local = {"localhost", "127.0.0.1"}
    assert hosts <= HOSTS | local, (
        f"{page.relative_to(root)} links to {hosts - HOSTS - local}: add them to HOSTS if they are meant"
    )


@pytest.mark.parametrize(
    ("title", "anchor"), [("The agent: what it costs", "the-agent-what-it-costs"), ("`track` (default)", "track-default")]
)
def test_headings_become_anchors(tmp_path: Path, title: str, anchor: str) -> None:
    (tmp_path / "page.md").write_text(f"# {title}\n\n```sh\n# no heading\n```\n## {title}\n")
    assert headings(tmp_path / "page.md") == {anchor, f"{anchor}-1"}
