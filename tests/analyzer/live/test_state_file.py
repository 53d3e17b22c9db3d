"""The file of the state: one analyzer at a time (tried with processes of their own), and what happens to a damaged one."""

import errno
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.live.state_file import alone_with
from epochcast.analyzer.live.state_store import StateStore

HOLDER = """
import sys
from pathlib import Path
from epochcast.analyzer.live.state_file import alone_with
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
            pytest.raises(InputError, match=r"another analyzer is using the state .*state\.db'; stop it"),
            alone_with(state),
        ):
            pass
        with alone_with(tmp_path / "another.db"):
            pass
        holder.kill()
        holder.wait()
    with alone_with(state):
        pass


@pytest.mark.parametrize("before", [None, 0o644])
def test_others_may_not_read_it_nor_keep_it_locked(tmp_path: Path, before: int | None) -> None:
    state = tmp_path / "state.db"
    if before is not None:  # of an older release
        state.touch(before)
    with alone_with(state), closing(StateStore(state)) as store:
        store.write_gpus([])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm", "state.db.lock"), 0o600)


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
        assert "cannot check whether another analyzer uses the state" in caplog.text


def damage(path: Path) -> bytes:
    """Overwrite all pages but the first; return what the file then holds."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()[:4096].ljust(path.stat().st_size, b"\xff")
    with path.open("r+b") as file:  # in place: others have it open
        file.write(content)
    return content


def test_damage_is_one_error_and_every_process_goes_on_with_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    one, other = StateStore(path), StateStore(path)
    one.write_plan("a", {"epochs": 3})
    content = damage(path)
    with pytest.raises(sqlite3.DatabaseError):
        one.plans()
    assert [aside.read_bytes() for aside in one.set_aside] == [content]
    one.write_plan("b", {"epochs": 4})
    assert other.plans() == one.plans() == {"b": {"epochs": 4}}
    assert (one.generation, other.generation) == (1, 1)
    other.close()  # the log of the new file stays
    one.close()
    assert StateStore(path).plans() == {"b": {"epochs": 4}}


def test_a_file_that_somebody_deletes_is_begun_anew(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.db")
    for file in tmp_path.glob("state.db*"):
        file.unlink()
    store.write_plan("b", {"epochs": 4})
    assert store.plans() == {"b": {"epochs": 4}} and store.set_aside == []


def test_a_disk_that_nobody_may_write_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def fails(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    store = StateStore(tmp_path / "state.db")
    with pytest.raises(sqlite3.OperationalError, match=r"^disk I/O error$"):
        store._file.use(fails)
    monkeypatch.setattr("os.utime", refused)
    with pytest.raises(sqlite3.OperationalError, match=r"^read-only file system$"):
        store._file.use(fails)
