"""What fails under a running service is named within half a minute, in health, metrics, page and alert, and heals.

Alerts are those that are shipped, less the time they wait.
"""

import html
import logging
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from .installation import EPOCH_S, Installation, OtherClock, mount_new

pytestmark = pytest.mark.soak

log = logging.getLogger(__name__)

# A boundary that is detected again may lie a few samples off.
BOUNDARY_S = 0.3


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, compiled: Callable[..., Path]) -> Iterator[Installation]:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine (Debian: apt install prometheus)")
    folder = tmp_path_factory.mktemp("failures")
    disk = folder / "disk"
    disk.mkdir()
    try:
        mount_new(disk, folder / "disk.image")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no disk can be mounted here ({error.stderr.decode().strip()})")
    made = Installation(folder, disk, compiled("clock_behind.so", Path(__file__).with_name("clock_behind.c")))
    try:
        for program in made.programs.values():
            program.start()
        made.seconds_until("a first job", made.is_well, 90)
        yield made
    finally:
        for program in reversed(made.programs.values()):
            program.stop(signal.SIGKILL)
        while disk.is_mount():  # one over the other
            subprocess.run(["umount", "--lazy", disk], check=True)


@contextmanager
def full_disk(installation: Installation) -> Iterator[None]:
    filler = installation.disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def disk_error(installation: Installation) -> Iterator[None]:
    """Every write fails, as on a disk that is dying."""
    watcher = installation.watcher.pid
    before = resource.prlimit(watcher, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(watcher, resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only(installation: Installation) -> Iterator[None]:
    """The kernel finds an error in the file system and lets nobody write any more; a new disk with the same files heals it."""
    device = subprocess.check_output(["findmnt", "--noheadings", "--output=SOURCE", installation.disk], text=True).strip()
    Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("test_failures.py")
    try:
        yield
    finally:
        mount_new(installation.disk, installation.disk.with_name("new.image"))


@contextmanager
def locked(installation: Installation) -> Iterator[None]:
    with closing(sqlite3.connect(installation.state, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def corrupt(installation: Installation) -> Iterator[None]:
    """Pages are overwritten, first those that the log holds are moved into the file."""
    with closing(sqlite3.connect(installation.state)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with installation.state.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (installation.state.stat().st_size - 4096))
    try:
        yield
    finally:
        for aside in installation.disk.glob("*.broken-*"):
            aside.unlink()


@contextmanager
def corrupt_at_start(installation: Installation) -> Iterator[None]:
    installation.service.stop()
    installation.state.write_bytes(b"this is no database" * 1000)
    installation.service.start()
    try:
        yield
    finally:
        for aside in installation.disk.glob("*.broken-*"):
            aside.unlink()


@contextmanager
def watcher_stopped(installation: Installation) -> Iterator[None]:
    installation.watcher.suspend()
    yield  # the service restarts it


@contextmanager
def source_gone(installation: Installation) -> Iterator[None]:
    installation.programs["agent"].stop(signal.SIGKILL)
    try:
        yield
    finally:
        installation.programs["agent"].start()


@contextmanager
def source_clock(offset_s: float) -> Iterator[None]:
    OtherClock.offset_s = offset_s
    try:
        yield
    finally:
        OtherClock.offset_s = 0.0


@contextmanager
def clock_ahead(_: Installation) -> Iterator[None]:
    with source_clock(3600.0):
        yield


@contextmanager
def clock_behind(_: Installation) -> Iterator[None]:
    with source_clock(-3600.0):
        yield


@contextmanager
def own_clock_behind(installation: Installation) -> Iterator[None]:
    """The service's machine is an hour behind all of its sources."""
    service, command = installation.service, installation.service.command
    service.stop()
    service.command = ["env", f"LD_PRELOAD={installation.clock_behind}", *command]
    service.start()
    try:
        yield
    finally:
        service.stop()
        service.command = command
        service.start()


@pytest.mark.parametrize(
    ("failure", "words", "metric", "alert"),
    [
        (full_disk, "disk is full", "epochcast_analyzer_store_errors_total [1-9]", "EpochcastStateNotWritten"),
        (disk_error, "disk I/O error", "epochcast_analyzer_store_errors_total [1-9]", "EpochcastStateNotWritten"),
        (read_only, "read-only file system", "epochcast_analyzer_store_errors_total [1-9]", "EpochcastStateNotWritten"),
        (locked, "locked", "epochcast_analyzer_store_errors_total [1-9]", "EpochcastStateNotWritten"),
        (corrupt, "the state file was damaged", "epochcast_analyzer_damaged_state_files 1", "EpochcastStateDamaged"),
        (corrupt_at_start, "the state file was damaged", "epochcast_analyzer_damaged_state_files 1", "EpochcastStateDamaged"),
        (watcher_stopped, "the watcher has not reported for", "epochcast_analyzer_watcher_up 0", "EpochcastWatcherDown"),
        (clock_ahead, "ahead of this machine's", "epochcast_analyzer_source_clock_offset_seconds.* 3[56]", "EpochcastClockOff"),
        (clock_behind, "behind this machine's", "epochcast_analyzer_source_clock_offset_seconds.* -3[56]", "EpochcastClockOff"),
        (own_clock_behind, "check this machine's", "epochcast_analyzer_source_clock_offset_seconds.* 3", "EpochcastClockOff"),
        (source_gone, "does not answer", "epochcast_analyzer_source_up.* 0", "EpochcastTelemetrySourceDown"),
    ],
)
def test_a_failure_is_named_and_heals(
    installation: Installation, failure: Callable[[Installation], object], words: str, metric: str, alert: str
) -> None:
    service = installation.service
    installation.seconds_until("health before", installation.is_well, 90)
    jobs, epochs = {job["id"] for job in service.json("/api/v1/jobs")["jobs"]}, installation.epochs
    before = service.get("/metrics").splitlines()

    def measured() -> bool:
        lines = [line for line in service.get("/metrics").splitlines() if line not in before]
        return any(re.match(metric, line) for line in lines)

    with failure(installation):  # type: ignore[attr-defined]
        seconds = {
            "health": installation.seconds_until("health", lambda: words in installation.notes),
            "metrics": installation.seconds_until("metrics", measured),
            "page": installation.seconds_until("page", lambda: words in html.unescape(service.get("/"))),
            "alert": installation.seconds_until("alert", lambda: alert in installation.alerts()),
        }
    seconds["healed"] = installation.seconds_until("health afterwards", installation.is_well, 90)

    def lost_nothing() -> bool:
        """Jobs and epochs from before are there, and all that ended since; a replay that starts again has not come so far."""
        now = installation.epochs
        kept = all(np.abs(now - start).min() < BOUNDARY_S for start in epochs)
        went_on = len(now) > len(epochs) + 1 and np.diff(now).max() < 1.5 * EPOCH_S
        same = failure is corrupt_at_start or {job["id"] for job in service.json("/api/v1/jobs")["jobs"]} >= jobs
        return kept and same and (went_on or failure is source_gone)

    seconds["complete"] = installation.seconds_until("what was kept", lost_nothing, 90)
    log.info("%s: %s", failure.__name__, ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items()))
