"""A table of trainings of random networks, as GPUMemNet writes them, whose labels follow from width and batch."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lab.occupancy.from_layers import ListedLayer


def convolution(inputs: int, outputs: int, side: int, kernel: int = 3) -> ListedLayer:
    return ListedLayer("conv2d", outputs * side**2, outputs * (inputs * kernel**2 + 1))


def activation(outputs: int, side: int, kind: str = "ReLU") -> ListedLayer:
    return ListedLayer(kind, outputs * side**2, 0)


def ends(channels: int, classes: int) -> list[ListedLayer]:
    return [ListedLayer("adaptive_avg_pool2d", channels, 0), ListedLayer("linear", classes, classes * (channels + 1))]


def trainings(path: Path, rows: int = 60) -> Path:
    """Convolutional networks of two architectures; row 5 has no SM occupancy, row 7 ran out of memory, two are empty."""
    rng = np.random.default_rng(1)
    written: list[dict[str, Any]] = []
    for number in range(rows):
        width, batch = int(rng.integers(8, 200)), int(rng.integers(2, 60))
        layers = [convolution(3, width, 16), activation(width, 16), convolution(width, width, 16), *ends(width, 10)]
        name = f"input_channels:3_num_classes:10_depth:2_arch:{'uniform' if number % 2 else 'gradual'}_base_filters:{width}"
        name += f"_batch:{batch}_input_size:16_act:relu_dropout:0.1_dropout:False_batchnorm:False"
        occupancy = 0.002 * width**0.5 * batch**0.5
        written.append(
            {
                "name": name,
                "depth": 2,
                "layers": str([tuple(layer) for layer in layers]),
                "batch": batch,
                "peak_memory_mib": 1500 + width * batch / 10,
                "gpu_utilization_percent": 50.0,
                "sm_active": min(1.0, 3 * occupancy),
                "sm_occupancy": -1.0 if number == 5 else occupancy,
                "status": "OOM_CRASH" if number == 7 else "SUCCESSFUL",
            }
        )
    written += [written[0] | {"layers": "[]"}, written[1] | {"peak_memory_mib": 0}]
    pd.DataFrame(written).to_csv(path, index=False)
    return path
