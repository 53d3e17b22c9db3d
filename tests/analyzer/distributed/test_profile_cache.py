"""The cache of operator times: kept apart by device, shared by processes, and never in the way."""

import sqlite3
import threading

import pytest

from epochcast.analyzer.errors import InputError

pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.operator_time.profile_cache import ProfileCache, cache_path
from epochcast.analyzer.backends.distributed.operator_time.timing import Timing

TIMING = Timing(1.5e-3, 1e-5, 9)


def test_timings_are_kept_apart_by_device_and_replaced(tmp_path):
    cache = ProfileCache(tmp_path / "new" / "times.sqlite")
    cache.put("cpu", {"a": TIMING, "b": TIMING})
    cache.put("cpu", {"b": Timing(2.0, 0.0, 1)})
    assert cache.get("cpu", ["a", "b", "c"]) == {"a": TIMING, "b": Timing(2.0, 0.0, 1)}
    assert cache.get("gpu", ["a"]) == {}


def test_more_operators_than_sqlite_takes_at_once(tmp_path):
    cache = ProfileCache(tmp_path / "times.sqlite")
    cache.put("cpu", {str(number): TIMING for number in range(2000)})
    assert len(cache.get("cpu", [str(number) for number in range(1, 3000)])) == 1999


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_file_is_set_aside_with_a_sentence(tmp_path, capsys, content):
    path = tmp_path / "times.sqlite"
    path.write_bytes(content)
    cache = ProfileCache(path)
    cache.put("cpu", {"a": TIMING})
    assert cache.get("cpu", ["a"]) == {"a": TIMING}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "damaged" in said
    (aside,) = tmp_path.glob("*.damaged")
    assert aside.read_bytes() == content
    assert aside.name in said


def test_a_table_of_other_columns_is_set_aside(tmp_path, capsys):
    path = tmp_path / "times.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE operator_times (device TEXT, operator TEXT)")
    database.close()
    ProfileCache(path).put("cpu", {"a": TIMING})
    assert "its columns are device, operator" in capsys.readouterr().err


def test_rows_that_are_no_times_are_left_out(tmp_path):
    cache = ProfileCache(tmp_path / "times.sqlite")
    cache.put("cpu", {"a": Timing(-1.0, 0.0, 3), "b": TIMING})
    assert cache.get("cpu", ["a", "b"]) == {"b": TIMING}


def test_several_writers_lose_nothing(tmp_path):
    path = tmp_path / "times.sqlite"

    def write(first):
        for number in range(first, first + 10):
            ProfileCache(path).put("cpu", {str(number): TIMING})

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 40, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ProfileCache(path).get("cpu", [str(number) for number in range(40)])) == 40


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="XDG_CACHE_HOME"):
        ProfileCache(tmp_path / "file" / "times.sqlite")


def test_the_place_follows_the_users_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_path() == tmp_path / "epochcast" / "operator_times.sqlite"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_path() == tmp_path / "home" / ".cache" / "epochcast" / "operator_times.sqlite"
