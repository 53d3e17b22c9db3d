"""CONTRIBUTING.md and docs/architecture.md name folders and files that exist."""

import re
from pathlib import Path

import pytest

PAGES = ("CONTRIBUTING.md", "docs/architecture.md")


@pytest.mark.parametrize("told_by", PAGES)
def test_folders_and_files_that_a_page_names_exist(root: Path, told_by: str) -> None:
    text = (root / told_by).read_text(encoding="utf-8")
    # Backticked paths; of what lies in analyzer/ and its backends/ the name alone will do.
    named = {name for name in re.findall(r"`([a-z_][\w./-]*)`", text) if "/" in name}
    assert named, f"{told_by} names no folder"
    for name in named - {"epochcast-demo/report.html"}:
        places = (root / name, root / "analyzer" / name, root / "analyzer/backends" / name)
        assert any(place.exists() for place in places), f"{told_by} names {name}, which is not there"
