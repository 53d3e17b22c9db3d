"""Addresses of our programs that the pages ask with curl, or name, are answered: their paths stand in the reference."""

import re
from pathlib import Path

from .pages import line_at, pages

PORTS = {"9911": "Agent", "9912": "Node analyzer", "9913": "Service"}
_ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):(991[123])(/[^\s'\"`)<>?]*)?")
_OF_THE_PAGE = ("/try", "/openapi.json")


def served(root: Path) -> dict[str, list[str]]:
    """Port -> templates of the paths that are answered there, from docs/reference/http-api.md."""
    text = (root / "docs/reference/http-api.md").read_text(encoding="utf-8")
    found = {}
    for port, title in PORTS.items():
        part = text.split(f"## {title} (port {port})")[1].split("\n## ")[0]
        found[port] = re.findall(r"`(?:GET |POST |PUT )?(/[^\s`]*)`", part)
    return found


def test_every_address_on_a_page_is_answered(root: Path) -> None:
    answered = {
        port: re.compile("|".join(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)) for template in templates))
        for port, templates in served(root).items()
    }
    wrong, looked_up = [], 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for address in _ADDRESS.finditer(text):
            port, path = address.groups("")
            asked = path.rstrip(".,;/")
            if (port == "9913" and asked in _OF_THE_PAGE) or not asked:
                continue
            looked_up += 1
            if not answered[port].fullmatch(asked):
                where = f"{page.relative_to(root)}:{line_at(text, address.start())}"
                wrong.append(f"{where}: nothing answers {path} on port {port}")
    assert not wrong, "\n".join(wrong)
    assert looked_up > 20
