"""Every command in a fenced block of a page runs here and succeeds, or the page or the list below says why not.

Each page has a folder of its own with the files that pages name (conftest.py); its commands run in their order. Those marked
``<!-- slow -->`` are run by `make soak`.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest

from epochcast.agent.cli import main as agent
from epochcast.analyzer.cli import main as analyzer

from ..pages import ROOT, Block, blocks

# Pages whose commands another test runs, with the files or the hardware that they need.
RUN_ELSEWHERE = {
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
    "docs/llm-jobs.md": "tests/docs/test_tutorial.py",
    "docs/how-to/add-a-predictor.md": "tests/docs/commands/test_how_to_add.py",
}
# Programs that are not ours.
NOT_RUN = {
    **dict.fromkeys(("pip", "pipx"), "installs packages"),
    **dict.fromkeys(("sudo", "sudoedit", "apt-get", "systemctl", "htpasswd"), "changes the system"),
    **dict.fromkeys(("docker", "kubectl", "kustomize", "helm"), "needs a daemon or a cluster"),
    **dict.fromkeys(("make", "git", ".ci/run"), "tests and builds would run in a test"),
    **dict.fromkeys(("curl",), "asks a running program: test_addresses.py looks its path up"),
    **dict.fromkeys(("cd", "cp", "mkdir", "export"), "prepares another command that is not run"),
    **dict.fromkeys(("dask", "dask-scheduler", "dask-worker"), "keeps running: tests/analyzer/fleet starts them"),
}
# Ours that run until they are stopped; other tests start them.
KEEP_RUNNING = re.compile(r"epochcast serve\b|epochcast-agent(?! (check|install|uninstall|--help))")


def test_pages_that_are_run_elsewhere_are(root: Path) -> None:
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (root / test).read_text(encoding="utf-8"), f"{test} does not run {page}"


def run_here(block: Block) -> list[list[str]]:
    """The words of each command of a block that is run here: the program's name, its arguments."""
    if block.page in RUN_ELSEWHERE or block.not_run or not block.is_commands:
        return []
    try:
        commands = [shlex.split(command, comments=True) for command in block.commands]
    except ValueError as error:
        raise ValueError(f"{block.where}: {error}") from error
    commands = [[Path(words[0]).name, *words[1:]] for words in commands]
    return [words for words in commands if words[0] not in NOT_RUN and not KEEP_RUNNING.match(" ".join(words))]


@pytest.mark.parametrize(
    "block",
    [pytest.param(one, id=one.where, marks=[pytest.mark.soak] if one.slow else []) for one in blocks() if run_here(one)],
)
def test_the_commands_of_a_block_succeed(
    block: Block, folder_of: Callable[[str], Path], examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(block.page)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # of lab/
    monkeypatch.syspath_prepend(str(folder))
    for words in run_here(block):
        for name in ("run.parquet", "run.csv"):  # as they were, after `record` has written in their place
            if (folder / name).stat().st_size != (examples / name).stat().st_size:
                (folder / name).write_bytes((examples / name).read_bytes())
        status, said = _run(words[0], words[1:])
        if status == 2 and find_spec("torch") is None and re.search(r"pip install '\.\[(torch|convnets|occupancy)\]'", said):
            pytest.skip(f"without torch: {said.strip()}")
        assert status == 0, f"{block.where}: {shlex.join(words)!r} ends with {status}: {said[-2000:]}"


def _run(program: str, arguments: list[str]) -> tuple[int, str]:
    """Run one command in this process, where it is ours; a redirection at its end is heeded, what follows a pipe is not."""
    if "|" in arguments:
        arguments = arguments[: arguments.index("|")]
    target = None
    if ">" in arguments:
        target = arguments[arguments.index(">") + 1]
        arguments = arguments[: arguments.index(">")]
    if program not in ("epochcast", "epochcast-agent"):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr
    said, failed = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(failed):
        status = (analyzer if program == "epochcast" else agent)(arguments)
    if target is not None:
        Path(target).write_text(said.getvalue())
    return status, said.getvalue() + failed.getvalue()
