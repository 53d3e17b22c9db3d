"""What can be known before anything runs: whether each network of a plan can be built, and how many GPUs PyTorch sees.

Both are done in a process of their own, since a network may be a user's code, and loading PyTorch takes seconds:

    python -m lab.campaign.preflight   (reads a JSON list of [network, image_size])
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install

_TIMEOUT_S = 300.0  # the paper's 70 cells take some seconds


@dataclass(frozen=True)
class Preflight:
    """What was found.

    Attributes:
        cuda_devices: how many GPUs PyTorch sees.
        failures: (network, image size) -> why it cannot be built.
    """

    cuda_devices: int
    failures: dict[tuple[str, int], str]


def preflight(cells: Sequence[tuple[str, int]]) -> Preflight:
    """Build each (network, image size), where that is possible without memory for its weights.

    Raises InputError if PyTorch is not installed, if the process dies, and for a network that cannot be built of any size in
    the plan: its name is wrong. One that only some sizes are too small for is among the failures.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError(f"a campaign trains with PyTorch, which is not installed; {how_to_install('torch')}")
    cells = list(dict.fromkeys(cells))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lab.campaign.preflight"],
            input=json.dumps(cells),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        said = (getattr(error, "stderr", None) or "").strip().splitlines()
        raise InputError(f"the plan's networks could not be built: {said[-1] if said else error}; fix them first") from error
    failures = {(network, size): reason for (network, size), reason in zip(cells, answer["reasons"], strict=True) if reason}
    for network in dict.fromkeys(name for name, _ in cells):
        sizes = [size for name, size in cells if name == network]
        if all((network, size) in failures for size in sizes):
            raise InputError(failures[network, sizes[0]])
    return Preflight(answer["cuda_devices"], failures)


def main() -> int:
    """The process: one line of JSON, ``cuda_devices`` and ``reasons`` (null where a cell can be built)."""
    import torch

    from epochcast.analyzer.backends.networks import NETWORKS
    from lab.campaign.networks import build

    def reason(network: str, image_size: int) -> str | None:
        # A user's factory may compute with its tensors, which are empty there: such a one is built with its memory.
        for device in ("meta",) if network in NETWORKS else ("meta", "cpu"):
            try:
                with torch.device(device):
                    build(network, image_size)
            except ValueError as error:
                said = str(error)
            else:
                return None
        return said

    reasons = [reason(*cell) for cell in json.load(sys.stdin)]
    sys.stdout.write(json.dumps({"cuda_devices": torch.cuda.device_count(), "reasons": reasons}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
