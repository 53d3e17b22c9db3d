"""What the calibrated model learns from measured runs: nine efficiencies, each with what is believed before any run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ...errors import InputError
from ...files import write_whole

SCHEMA = "epochcast.distributed/v1"


@dataclass(frozen=True)
class Coefficients:
    """Efficiencies of hardware and software, dimensionless unless said. The defaults are the belief without any measured run.

    Attributes:
        gemm: share of the data sheet's FLOP/s that a large matrix product reaches.
        gemm_depth: inner dimension K at which a matrix product reaches half of that (elements).
        gemm_tail: waves of tiles that a product loses at its end.
        gemm_bandwidth: share of the memory bandwidth in products that memory bounds.
        bandwidth: share of the memory bandwidth in one-pass operators.
        launch: seconds that the host takes to launch one kernel; the device waits where it runs dry.
        node_link: share of the modelled speed that communication within a node reaches amid computation.
        network: share of the line rate that communication between nodes reaches, many groups at once.
        optimizer: share of the memory bandwidth in the weight update.
    """

    gemm: float = 0.80
    gemm_depth: float = 128.0
    gemm_tail: float = 0.5
    gemm_bandwidth: float = 0.85
    bandwidth: float = 0.80
    launch: float = 6e-6
    node_link: float = 0.80
    network: float = 0.70
    optimizer: float = 0.85

    def save(self, folder: Path) -> None:
        """Write them as ``coefficients.json`` into a folder, which is made; raises InputError if it cannot be written."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {str(folder)!r}: {error.strerror}; name another") from error
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2) + "\n"
        write_whole(folder / "coefficients.json", lambda file: file.write(text.encode()))

    @classmethod
    def shipped(cls) -> Coefficients:
        """Those that come with Epochcast: `benchmarks/distributed/fit_coefficients.py` on vTrain's public A100 runs."""
        return cls.load(Path(__file__).parent)

    @classmethod
    def load(cls, folder: Path) -> Coefficients:
        """Read what :meth:`save` wrote.

        Raises:
            InputError: the file is missing, of another kind, or a value is missing or outside of :data:`BOUNDS`.
        """
        path = folder / "coefficients.json"
        try:
            table = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {str(path)!r}: {error}; make it by `epochcast train distributed`") from error
        return cls.from_table(table, str(path))

    @classmethod
    def from_table(cls, table: object, origin: str) -> Coefficients:
        """Check what a file holds; raises InputError."""
        if not isinstance(table, Mapping) or table.get("schema") != SCHEMA:
            raise InputError(f"{origin} is no file of `epochcast train distributed` (schema {SCHEMA}); train anew")
        values = {}
        for one in fields(cls):
            value, (low, high) = table.get(one.name), BOUNDS[one.name]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise InputError(f"{origin}: {one.name} is {value!r}; it must lie between {low:g} and {high:g}")
            values[one.name] = float(value)
        return cls(**values)


BOUNDS: Mapping[str, tuple[float, float]] = {
    "gemm": (0.05, 1.0),
    "gemm_depth": (1.0, 4096.0),
    "gemm_tail": (0.01, 8.0),
    "gemm_bandwidth": (0.1, 1.0),
    "bandwidth": (0.1, 1.5),  # kernels fused further than the graph says pass 1
    "launch": (1e-8, 1e-4),
    "node_link": (0.05, 3.0),  # overlap with computation passes 1
    "network": (0.05, 1.5),
    "optimizer": (0.05, 1.5),
}
"""What a coefficient may be, fitted or read."""

SPREAD: Mapping[str, float] = {
    "gemm": 0.15,
    "gemm_depth": 0.5,
    "gemm_tail": 0.7,
    "gemm_bandwidth": 0.2,
    "bandwidth": 0.4,
    "launch": 0.5,
    "node_link": 0.4,
    "network": 0.4,
    "optimizer": 0.4,
}
"""Standard deviation of each belief, of the coefficient's logarithm."""
