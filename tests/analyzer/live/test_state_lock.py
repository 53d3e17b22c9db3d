"""One analyzer to a state, tried with processes of their own: a lock of this one would let it in again."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.live.state_lock import alone_with

HOLDER = """
import sys
from pathlib import Path
from epochcast.analyzer.live.state_lock import alone_with
with alone_with(Path(sys.argv[1])):
    print("has it", flush=True)
    sys.stdin.read()
"""


def test_a_second_analyzer_is_refused_until_the_first_is_gone_however_it_ends(tmp_path: Path) -> None:
    state = tmp_path / "folder" / "state.db"
    command = [sys.executable, "-c", HOLDER, str(state)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        with (
            pytest.raises(InputError, match=r"another analyzer runs with the state .*state\.db'; end that one"),
            alone_with(state),
        ):
            pass
        with alone_with(tmp_path / "another.db"):
            pass
        holder.kill()
        holder.wait()
    with alone_with(state):
        pass


def test_a_state_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), alone_with(tmp_path / "file" / "state.db"):
        pass


def test_where_nothing_can_be_locked_it_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with alone_with(tmp_path / "state.db"):
        assert "whether another analyzer has the state" in caplog.text
