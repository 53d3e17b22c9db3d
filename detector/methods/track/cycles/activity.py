"""How much a GPU works at each sample: what share of the time it is idle, where it rests, and where it saves."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import runs
from epochcast.detector.signals import Signals

Array = NDArray[np.float64]

#: Shares of the time in which kernels run, the best first; and metrics whose full scale is what is usual at work.
BUSY, RELATIVE = ("gr_engine_active", "gpu_utilization"), ("sm_active", "process_cpu_utilization", "cpu_utilization", "cpu")

#: Where a GPU works, most readings are near this percentile of what it does while it works.
WORKING = 90

#: Below this share of its working level a GPU rests. A validation has 0.5 of it and more, a save 0.15 and less.
RESTING = 0.4

#: A GPU that draws less than this share of its working power waits, regardless of its utilisation: the kernels of a collective
#: operation spin until the last GPU has come (H100 that wait for a checkpoint: 0.27, utilisation 1). Decision 0038.
DRAWN = 0.5

#: What leaves the device, or its process, when a state is saved, the best first [bytes/s]. Disks are moved by anybody.
OUT = ("pcie_tx", "process_write")

#: A save moves so many times what leaves the device while it works. Gradients and results leave it all the time.
BURST = 8.0

#: ... and this share of the largest burst.
LARGE = 0.05

#: Saves are regular if this share of their distances is that close to the median, which is so many times the cycle; a second
#: one within a tenth of a cycle is the same. Fewer say nothing.
REGULAR, NEAR, FURTHER, SAME_SAVE, FEWEST_SAVES = 0.6, 0.15, 1.5, 0.1, 4


@dataclass(frozen=True)
class TraceActivity:
    """The device's work, from a trace.

    Attributes:
        idle: (n,) 0..1, share of each sample in which the device waited; None where no metric shows it.
        rests: (n,) whether the device rests.
        saves: (n,) whether it rests while much leaves it; None where no metric shows what leaves it.
        out: name of the metric of what leaves it; None without one.
    """

    idle: Array | None
    rests: NDArray[np.bool_]
    saves: NDArray[np.bool_] | None
    out: str | None


def activity(signals: Signals, inside: NDArray[np.bool_]) -> TraceActivity:
    """The device's work at each sample; what is usual is taken from the samples `inside` cycles."""
    metrics = signals.metrics
    busy = next((name for name in (*BUSY, *RELATIVE) if name in metrics and metrics[name][inside].any()), None)
    power = next((metrics[name] for name in ("power", "power_average") if name in metrics), None)
    rests, idle = np.zeros(signals.time.size, dtype=bool), None
    if busy is not None:
        usual = float(np.percentile(metrics[busy][inside], WORKING))
        rests = metrics[busy] < RESTING * usual
        idle = np.clip(1 - metrics[busy] / (1.0 if busy in BUSY else max(usual, 1e-12)), 0, 1)
    if power is not None:
        waits = power < DRAWN * float(np.percentile(power[inside], WORKING))
        rests, idle = rests | waits, np.maximum(0.0 if idle is None else idle, waits)
    out = next((name for name in OUT if name in metrics and np.ptp(metrics[name][inside]) > 0), None)
    saves = None
    if out is not None:
        flow = metrics[out]
        usual = float(np.median(flow[inside & ~rests])) if (inside & ~rests).any() else 0.0
        saves = rests & (flow > max(BURST * usual, LARGE * float(flow[inside].max())))
    return TraceActivity(idle, rests, saves, out)


def saves_of(signals: Signals, does: TraceActivity, boundaries: Array) -> Array | None:
    """Ends of the saves [unix s] within cycles; None unless they are regular and further apart than the cycles."""
    if does.saves is None:
        return None
    period = float(np.median(np.diff(boundaries)))
    inside = (signals.time > boundaries[0] - period / 2) & (signals.time <= boundaries[-1] + period / 2)
    starts, stops = runs(does.saves & inside)
    begins, ends = signals.time[starts], signals.time[stops - 1]
    ends = ends[np.append(begins[1:] - ends[:-1] > SAME_SAVE * period, True)[: ends.size]]
    if ends.size < FEWEST_SAVES:
        return None
    distances = np.diff(ends)
    usual = float(np.median(distances))
    regular = float(np.mean(np.abs(distances / usual - 1) <= NEAR)) >= REGULAR
    return ends if regular and usual > FURTHER * period else None
