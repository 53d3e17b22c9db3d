"""NVIDIA GPUs through a dcgm-exporter that runs already: its page, read once a second.

The page has neither times nor history: it shows what the exporter collected last, by default every 30 seconds (its ``-c``). A
page like the one before is therefore no new reading and gives no rows, and the rows of a new one carry the time at which it was
fetched: their values may be older than that by the exporter's interval.
"""

import http.client
import math
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from epochcast.agent.catalog import Metric
from epochcast.agent.config import Config
from epochcast.agent.sources import Attribute, Device, Row, Source, Tick
from epochcast.agent.sources.mig import MigUuids, mig_uuid, mig_uuids
from epochcast.common.errors import InputError
from epochcast.dcgm_names import BLANK, ENERGY_BLANK, LAST_XID, NAMES, OLDEST, ONCE_PERCENT, PERCENT

# Why metrics without a name there are not measured.
NO_NAME = "a dcgm-exporter does not export it directly; the sources 'gpm', 'nvml' and 'dcgm' measure it"
TIMEOUT_S = 2.0
LARGEST_PAGE = 16 * 2**20


class DcgmExporterSource(Source):
    """The GPUs and MIG instances on the exporter's page. A page that is late, cut off or broken fails the read as a whole."""

    name = "dcgm-exporter"
    hertz = 1.0
    interval = 1.0
    regular = False
    lag = 2.0
    # An exporter of two missed rounds of 30 s shows a dead host engine's last values, or hangs.
    silent_after = 65.0

    def __init__(self, config: Config, only: frozenset[str] | None = None) -> None:
        self._url = config.exporter
        # No proxy: the exporter is on this node.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._metrics = {name: metric for name, metric in config.metrics().items() if name in OLDEST}
        gpu_metrics = [metric for metric in config.metrics().values() if metric.scope == "gpu"]
        self._unknown = {metric.name: NO_NAME for metric in gpu_metrics if metric.name not in OLDEST}
        self.blanks: Counter[tuple[int, str]] = Counter()
        self._only = only
        # By UUID: the code of the last Xid error on the page, and on the page before.
        self._xids: dict[str, int] = {}
        self._xids_before: dict[str, int] = {}
        self._before: list[str] = []
        self._series: dict[str, tuple[str, Device | None]] = {}
        try:
            lines = self._lines()
            self._mig = mig_uuids() if any("GPU_I_ID=" in line for line in lines) else {}
            gpus, values = self._values(lines)
        except (OSError, ValueError) as error:
            raise InputError(
                f"the dcgm-exporter's page {self._url} cannot be read ({error}); start the exporter, "
                "or set exporter to its page"
            ) from error
        shown = [gpus[uuid] for uuid, readings in values.items() if not all(map(math.isnan, readings.values()))]
        if not shown:
            wanted = "" if only is None else " to read"
            raise InputError(
                f"source 'dcgm-exporter' finds no GPU{wanted} on the page {self._url} "
                "(a DCGM_FI_… series with a UUID and a value); set exporter to a dcgm-exporter's page"
            )
        on_page = {name for readings in values.values() for name in readings}
        order = sorted(shown, key=lambda gpu: (gpu.index, gpu.instance is not None, gpu.instance or 0))
        self.devices = tuple(self._device(gpu, values[gpu.uuid], on_page) for gpu in order)
        self._position = {device.uuid: i for i, device in enumerate(self.devices)}

    def _device(self, gpu: Device, readings: Mapping[str, float], on_page: Collection[str]) -> Device:
        metrics = self._metrics.values()
        blank = [metric for metric in metrics if math.isnan(readings.get(metric.name, math.nan))]
        return replace(
            gpu,
            metrics=tuple(metric for metric in metrics if metric not in blank),
            unmeasured=self._unknown
            | {
                metric.name: "the exporter has no value of it for this device" if metric.name in on_page else _missing(metric)
                for metric in blank
            },
        )

    def read(self, tick: Tick) -> Sequence[Row]:
        """Return a row per GPU when the exporter has collected again; raise RuntimeError for a page that cannot be used."""
        try:
            lines = self._lines()
            if lines == self._before:
                return []
            _, values = self._values(lines)
        except (OSError, ValueError) as error:
            raise RuntimeError(f"the dcgm-exporter's page {self._url} cannot be read: {error}") from error
        self._before = lines
        rows = []
        for uuid, readings in values.items():
            position = self._position.get(uuid)
            given = {name for name, value in readings.items() if not math.isnan(value)}
            # A new GPU or instance, another counters file, a value where there was only a blank: open again to show it.
            if given and (position is None or not given <= {metric.name for metric in self.devices[position].metrics}):
                self.outdated = True
            if position is not None:
                metrics = self.devices[position].metrics
                self.blanks.update((position, metric.name) for metric in metrics if metric.name not in given)
                row = np.array([readings.get(metric.name, math.nan) for metric in metrics])
                if not np.isnan(row).all():
                    rows.append(Row(position, tick.time, row))
        return rows

    def _lines(self) -> list[str]:
        """Fetch the page and return its lines of known fields; raise OSError or ValueError when it is not whole."""
        text = self._fetch().decode("utf-8", errors="replace")
        if not text.endswith("\n"):
            raise ValueError("its last line is cut off")
        lines = text.splitlines()
        known = [line for line in lines if line.partition("{")[0] in NAMES]
        if not known and not any(line.startswith(("# HELP", "# TYPE")) for line in lines):
            raise ValueError(f"it is not a Prometheus page, it begins with {lines[0][:60]!r}")
        return known

    def _fetch(self) -> bytes:
        """Return the page; two seconds are all it gets, however it dribbles in."""
        deadline = time.monotonic() + TIMEOUT_S
        page = bytearray()
        try:
            with self._opener.open(self._url, timeout=TIMEOUT_S) as answer:
                while part := answer.read1(1 << 16):
                    page += part
                    if len(page) > LARGEST_PAGE:
                        raise ValueError(f"it is larger than {LARGEST_PAGE // 2**20} MiB")
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"it takes longer than {TIMEOUT_S:g} s")
                length = answer.headers.get("Content-Length")
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"HTTP status {error.code} {error.reason}") from error
        except urllib.error.URLError as error:
            raise OSError(str(error.reason)) from error
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        if length is not None and int(length) != len(page):
            raise OSError(f"it ends after {len(page)} of {length} bytes")
        return bytes(page)

    def _values(self, lines: list[str]) -> tuple[dict[str, Device], dict[str, dict[str, float]]]:
        """Return the GPUs, and by metric their values (base units, NaN for a blank), both by UUID.

        Where pods share a GPU, it has a series for each of them, and a counters file may have a field by its old and its new
        name; the largest value counts for the GPU. Raises ValueError for a line that is broken.
        """
        gpus: dict[str, Device] = {}
        values: dict[str, dict[str, float]] = {}
        # Only numbers change from page to page: labels, costly to parse, are kept from the page before.
        series = {}
        for line in lines:
            identity, _, number = line.rpartition(" ")
            name, gpu = series[identity] = self._series.get(identity) or _series(identity, self._mig)
            column, factor = NAMES[name]
            value = float(number)
            if gpu is not None and column == LAST_XID:
                self._xids[gpu.uuid] = int(value) if 0 < value < BLANK else 0
            if gpu is None or column not in self._metrics or (self._only is not None and gpu.uuid not in self._only):
                continue
            if not 0 <= value < (ENERGY_BLANK if column == "energy" else BLANK):
                value = math.nan
            else:
                # The exporter prints whole numbers without a point, and a ratio with one.
                value *= PERCENT if name == ONCE_PERCENT and "." not in number else factor
            gpus.setdefault(gpu.uuid, gpu)
            readings = values.setdefault(gpu.uuid, {})
            if column not in readings or math.isnan(readings[column]) or value > readings[column]:
                readings[column] = value
        self._series = series
        return gpus, values

    def take_xids(self) -> Sequence[tuple[int, int]]:
        """Return the Xid errors that are new on the page: the exporter shows the last one until it is started again."""
        new = [
            (self._position[uuid], code)
            for uuid, code in self._xids.items()
            if code and code != self._xids_before.get(uuid) and uuid in self._position
        ]
        self._xids_before = dict(self._xids)
        return new


def _series(identity: str, mig: MigUuids) -> tuple[str, Device | None]:
    """Return the name and the GPU of a series, from its line up to the value; raise ValueError when it is broken."""
    if not identity.endswith("}"):
        raise ValueError(f"it has a line that is not a dcgm-exporter series: {identity[:100]!r}")
    (family,) = text_string_to_metric_families(f"{identity} 0\n")
    (sample,) = family.samples
    return sample.name, _gpu(sample.labels, mig)


def _gpu(labels: Mapping[str, str], mig: MigUuids) -> Device | None:
    """Return the GPU or MIG instance, without metrics yet, whose series it is; None when its labels do not say."""
    uuid = labels.get("UUID") or labels.get("uuid")
    index = labels.get("gpu", "")
    if not uuid or not index.isdecimal():
        return None
    name = labels.get("modelName", "unknown")
    driver = labels.get("DCGM_FI_DRIVER_VERSION") or labels.get("DCGM_FI_SYSTEM_DRIVER_VERSION", "")  # up to 4.8; since 4.9
    static = {"driver_version": Attribute(driver, "dcgm")} if driver else {}
    gpu = Device(int(index), uuid, name, DcgmExporterSource.name, (), static=static)
    if not (instance := labels.get("GPU_I_ID", "")).isdecimal():
        return gpu
    name = f"{name} MIG {labels.get('GPU_I_PROFILE', '')}".rstrip()
    return replace(gpu, uuid=mig_uuid(mig, uuid, int(instance)), name=name, instance=int(instance))


def _missing(metric: Metric) -> str:
    return f"not in the exporter's counters file; add {OLDEST[metric.name]}"
