"""Event files of TensorBoard (``events.out.tfevents.…``): scalars with a step and a time, and no telemetry.

Epochs are counted by a scalar ``epoch`` (Lightning, transformers' ``train/epoch``), or by the steps of Keras' ``epoch_loss``
and the like.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.logs.logged_run import LoggedRun, last_part
from epochcast.extras import how_to_install

_NAME = "tfevents"
_PER_EPOCH = "epoch_"


def event_files(path: Path) -> list[Path]:
    """The event file that ``path`` is, or those that the folder ``path`` holds; none for anything else."""
    if path.is_dir():
        return sorted(path.glob(f"*{_NAME}*"))
    return [path] if _NAME in path.name else []


def read(files: list[Path], name: str) -> LoggedRun:
    """The run that event files hold, as far as they can be read.

    Raises InputError for files that cannot be opened, and where the tensorboard package is not installed.
    """
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError as error:
        raise InputError(
            f"{name!r} is a TensorBoard log, but TensorBoard is not installed here; {how_to_install('tensorboard')}"
        ) from error
    rows: dict[str, set[tuple[float, float]]] = defaultdict(set)
    for file in files:
        try:
            # Where a file is damaged or cut off, the loader ends without a word.
            for event in EventFileLoader(str(file)).Load():
                for value in event.summary.value:
                    if value.tag.startswith(_PER_EPOCH):
                        rows["epoch"].add((event.wall_time, float(event.step)))
                    elif last_part(value.tag) == "epoch" and value.HasField("tensor"):
                        scalar = make_ndarray(value.tensor)
                        if scalar.size == 1 and np.issubdtype(scalar.dtype, np.number) and np.isfinite(scalar).all():
                            rows[value.tag].add((event.wall_time, float(scalar.reshape(-1)[0])))
        except (OSError, DecodeError, TypeError, ValueError) as error:
            raise InputError(f"{str(file)!r} is not a readable event file of TensorBoard ({error!r:.200})") from error
    return LoggedRun({key: sorted(values) for key, values in rows.items()})
