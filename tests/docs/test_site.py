"""The site builds without a warning, loads nothing from elsewhere, and leads to every page."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("no mkdocs (extra docs)")
    folder = tmp_path_factory.mktemp("site")
    # As `mkdocs build`, without the collection of garbage, which takes a third of the time and finds next to nothing.
    code = "import gc, sys; gc.disable(); from mkdocs.__main__ import cli; cli(sys.argv[1:])"
    command = [sys.executable, "-c", code, "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages_of(nav: object) -> Iterator[str]:
    """The pages that the navigation names; those of a folder stand for all in it."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, list):
        for entry in nav:
            yield from pages_of(entry)
    elif isinstance(nav, dict):
        for entry in nav.values():
            yield from pages_of(entry)


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=\"?(https?:)?//(?!localhost)[^\s\">]+")
    for page in site.rglob("*.html"):
        assert not (found := loads.search(page.read_text(encoding="utf-8"))), f"{page.name}: {found[0] if found else ''}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_every_page_is_in_the_navigation_and_in_the_search(site: Path, root: Path) -> None:
    nav = re.search(r"^nav:\n(?:(?: .*|)\n)*", (root / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert nav
    named = list(pages_of(yaml.safe_load(nav[0])["nav"]))
    assert len(named) == len(set(named))
    index = (site / "search/search_index.json").read_text(encoding="utf-8")
    assert '"repository/' not in index  # files of the repository would crowd out the pages
    for page in (root / "docs").rglob("*.md"):
        place = page.relative_to(root / "docs").as_posix()
        assert place in named or f"{place.split('/')[0]}/" in named, f"{place} is missing in mkdocs.yml's nav"
        known = f'"{place.removesuffix(".md")}.html' in index
        assert known == (place != "decisions.md"), f"the search should know each page but the decisions: {place}"


def test_the_search_answers_a_page_that_was_opened_from_a_folder(site: Path, chromium: "Browser") -> None:
    """As `make docs` leaves it: there is no web server, and browsers start no worker there (docs/site/iframe-worker.js)."""
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "how-to/install.html").as_uri())
    # Letter by letter: the search listens to keys, and does not see a text that is put into the field after it began to listen.
    page.locator(".md-search__input").press_sequentially("straggler")
    found = page.locator(".md-search-result__link").first
    found.wait_for(state="attached", timeout=60_000)
    assert "fleet.html" in (found.get_attribute("href") or "")
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    page.close()
