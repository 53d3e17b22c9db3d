"""Addresses of our programs that the pages ask with curl, or name, are answered: their paths stand in the reference."""

import re
from pathlib import Path

PORTS = {"9911": "Agent", "9912": "Node analyzer", "9913": "Service"}
_ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):(991[123])(/[^\s'\"`)<>?]*)?")
_OF_THE_PAGE = ("/try", "/reference", "/openapi.json")


def served(root: Path) -> dict[str, list[str]]:
    """Port -> templates of the paths that are answered there, from docs/reference/http-api.md."""
    text = (root / "docs/reference/http-api.md").read_text(encoding="utf-8")
    found = {}
    for port, title in PORTS.items():
        part = text.split(f"## {title} (port {port})")[1].split("\n## ")[0]
        found[port] = re.findall(r"`(?:GET |POST |PUT )?(/[^\s`]*)`", part)
    return found


def test_addresses_are_answered(page: Path, root: Path) -> None:
    templates = served(root)
    for port, path in _ADDRESS.findall(page.read_text(encoding="utf-8")):
        asked = path.rstrip(".,;/")
        if (port == "9913" and asked in _OF_THE_PAGE) or not asked:
            continue
        known = [re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)) for template in templates[port]]
        assert any(re.fullmatch(pattern, asked) for pattern in known), f"nothing answers {path} on port {port}"
