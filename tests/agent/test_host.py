import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from epochcast.agent.config import Config
from epochcast.agent.sources import Tick
from epochcast.agent.sources.host import HostSource, cpu_times, disk_bytes, memory_in_use, minor_faults
from epochcast.common.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the host source reads Linux's /proc")


@pytest.fixture
def host() -> Iterator[HostSource]:
    source = HostSource(Config())
    yield source
    source.close()


def values(source: HostSource, elapsed: float) -> dict[str, float]:
    (row,) = source.read(Tick(1_700_000_000 + elapsed, elapsed, False, False))
    return dict(zip((metric.name for metric in source.devices[0].metrics), row.values, strict=True))


def test_a_busy_loop_shows_on_the_real_machine(host: HostSource) -> None:
    cpus = int(host.devices[0].static["cpus"].value)
    start = time.monotonic()
    first = values(host, 0.0)
    assert first["rss"] > 0
    assert np.isnan([first[name] for name in ("cpu_utilization", "context_switches", "minor_faults")]).all()  # no rates yet
    while time.monotonic() - start < 0.5:
        bytearray(1 << 20)  # work, and page faults
    got = values(host, time.monotonic() - start)
    # At least our own share of one CPU, less what the hypervisor or the 10 ms clock may take.
    assert 0.5 / cpus < got["cpu_utilization"] <= 1
    assert 10e6 < got["rss"] < float(host.devices[0].static["memory_total"].value)
    assert got["minor_faults"] >= 0
    assert got["context_switches"] > 0


def test_proc_files_are_read_as_their_manual_says() -> None:
    stat = "cpu  100 10 50 1000 20 3 7 40 99 9\ncpu0 1 2 3\nctxt 5\n"
    assert cpu_times(stat) == (170, 170 + 1020 + 40)
    assert memory_in_use("MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  400 kB\n") == 600 * 1024
    assert minor_faults("nr_x 1\npgfault 70\npgmajfault 20\n") == 50
    diskstats = "   8  0 sda 1 0 100 0 1 0 200 0 0 0 0\n   8  1 sda1 1 0 100 0 1 0 200 0 0 0 0\n"
    assert disk_bytes(diskstats, frozenset({"sda"})) == (100 * 512, 200 * 512)


def proc_folder(folder: Path, busy: int, idle: int, read: int) -> None:
    (folder / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\nctxt {busy}\n")
    (folder / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 250 kB\n")
    (folder / "diskstats").write_text(f"8 0 sda 1 0 {read} 0 1 0 0 0 0 0 0\n")


def test_rates_are_over_the_time_since_the_previous_reading(tmp_path: Path) -> None:
    proc_folder(tmp_path, busy=100, idle=100, read=1000)
    source = HostSource(Config(), proc=tmp_path, disks=frozenset({"sda"}))
    values(source, 0.0)
    proc_folder(tmp_path, busy=130, idle=110, read=1010)
    got = values(source, 0.5)
    assert got["cpu_utilization"] == pytest.approx(0.75)
    assert got["context_switches"] == pytest.approx(60)
    assert got["disk_read"] == pytest.approx(10 * 512 / 0.5)
    assert got["rss"] == 750 * 1024
    # A disk that was unplugged takes its count with it; that is no negative rate.
    proc_folder(tmp_path, busy=131, idle=111, read=0)
    assert values(source, 0.6)["disk_read"] == 0
    source.close()


def test_what_this_kernel_lacks_is_left_out_with_the_reason(tmp_path: Path) -> None:
    proc_folder(tmp_path, busy=1, idle=1, read=0)
    (device,) = HostSource(Config(), proc=tmp_path, disks=frozenset()).devices
    assert "disk_read" not in {metric.name for metric in device.metrics}
    assert "no disk with hardware" in device.unmeasured["disk_read"]
    assert "minor_faults" not in {metric.name for metric in device.metrics}
    assert "vmstat cannot be read" in device.unmeasured["minor_faults"]


def test_no_proc_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="finds nothing to read"):
        HostSource(Config(), proc=tmp_path)
