"""CONTRIBUTING.md and docs/architecture.md name the folders that are there, and all of them."""

import re
import subprocess
from pathlib import Path

import pytest

PAGES = ("CONTRIBUTING.md", "docs/architecture.md")


def tracked_folders(root: Path, below: str = ".") -> set[str]:
    """Names of the folders directly below one that hold tracked files, without those that begin with a dot."""
    listed = subprocess.run(["git", "ls-files", "-z", below], cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("no git checkout: what belongs to the tree is not known")
    start = 0 if below == "." else len(Path(below).parts)
    names = (Path(name).parts[start:] for name in listed.stdout.split("\0") if name)
    return {parts[0] for parts in names if len(parts) > 1 and not parts[0].startswith(".")}


@pytest.mark.parametrize("told_by", PAGES)
def test_folders_and_files_that_a_page_names_exist(root: Path, told_by: str) -> None:
    text = (root / told_by).read_text(encoding="utf-8")
    # Backticked paths; of what lies in analyzer/ and its backends/ the name alone will do.
    named = {name for name in re.findall(r"`([a-z_][\w./-]*)`", text) if "/" in name}
    assert named, f"{told_by} names no folder"
    for name in named - {"epochcast-demo/report.html"}:
        places = (root / name, root / "analyzer" / name, root / "analyzer/backends" / name)
        assert any(place.exists() for place in places), f"{told_by} names {name}, which is not there"


def test_contributing_has_every_folder(root: Path) -> None:
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    missing = {name for name in tracked_folders(root) if f"`{name}/" not in text} - {"tests"}
    assert not missing, f"CONTRIBUTING.md does not name {missing}"
    missing = {name for name in tracked_folders(root, "analyzer") if f"`{name}/`" not in text}
    assert not missing, f"CONTRIBUTING.md does not name {missing} of analyzer/"
