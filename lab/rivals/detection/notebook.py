"""The authors' public variant of the recipe: their notebook for epoch latency on GPUs, older than the paper and unlike it.

We know the notebook by a description, not by its text. Reproduced as described:

- GPU utilization instead of `dram_active`; only the second half of the run, and of that the first 1999 samples. That is one
  sample less than Luminol's bitmap needs: the notebook has only ever run the package's other algorithm (see `luminol`).
- Luminol once, then two rounds of a Savitzky-Golay filter of order 1, everything scaled to 0..1 after each; windows of 11, 21,
  91, 101 or 231 samples by the length of the run.
- `find_peaks(prominence=0.01)`, then peaks below the mean are removed from the list while it is iterated, which spares some.
- The period is the distance from the first peak to the last by the number of peaks less one.

Unknown, hence parameters: which length has which window (here the one nearest to length / 40, the rule of the later paper) and
whose mean the peaks must reach (here the smoothed score's). The notebook also crops each run by its true marks and drops runs
of at most 300 or at least 19990 samples; that is the evaluation's business, not a detector's.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks, savgol_filter

from epochcast.detector import luminol
from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods import univariate
from epochcast.detector.signals import Signals

# The notebook's, as ../shared/research/detector.md, 0, describes it.
WINDOWS = (11, 21, 91, 101, 231)


def detect(
    signals: Signals,
    clock: Clock,
    *,
    first_share: float = 0.5,
    most_samples: int = 1999,
    rounds: int = 2,
    polyorder: int = 1,
    window_divisor: float = 40,
    prominence: float = 0.01,
    floor: Literal["score", "peaks"] = "score",
) -> Detection:
    """Epochs between the peaks of the smoothed Luminol score of a piece of the trace, as the authors' notebook finds them.

    The metric is `gpu_utilization` where the trace has it, else the first of `signals.PREFERENCE`. The confidence is that of
    `paper`: the share of peak distances within 15 % of their mean.

    Args:
        signals: n samples.
        clock: the samples' positions.
        first_share: where the piece begins, as a share of the trace's samples.
        most_samples: length of the piece, at most.
        rounds: of the Savitzky-Golay filter.
        polyorder: of the filter.
        window_divisor: the window is the one of `WINDOWS` nearest to n / window_divisor samples, by their ratio.
        prominence: of `scipy.signal.find_peaks`, on the score scaled to 0..1.
        floor: peaks lower than the mean of the smoothed `score`, or of the `peaks` themselves, are removed.

    Returns:
        Verdict `epochs` for at least two peaks, else `none`; no epoch is outside the piece. `scores` holds `luminol`,
        `smoothed1`, `smoothed2`, ...: (n,) at the samples' times, 0..1, and 0 outside the piece.

    Raises:
        InputError: too short a series for the filter.
    """
    n = signals.time.size
    window = min(WINDOWS, key=lambda window: abs(np.log(window * window_divisor / n)))
    name = "gpu_utilization" if "gpu_utilization" in signals.metrics else signals.main()
    series = univariate.sampled(signals, clock, name)
    piece = slice(int(n * first_share), min(n, int(n * first_share) + most_samples))
    length = piece.stop - piece.start
    if length < max(window, 2):
        raise InputError(
            f"the notebook's recipe filters {window} samples at a time, its piece of this trace has {length}: record longer"
        )

    values = _scaled(luminol.scores(series.values[piece]))
    by_round = {"luminol": values}
    for number in range(1, rounds + 1):
        values = _scaled(savgol_filter(values, window, polyorder))
        by_round[f"smoothed{number}"] = values

    peaks = find_peaks(values, prominence=prominence)[0].tolist()
    least = float(np.mean(values[peaks] if floor == "peaks" and peaks else values))
    for peak in peaks:
        if values[peak] < least:
            peaks.remove(peak)  # while iterating, as the authors do: the peak after a removed one is never looked at
    scores = {}
    for key, score in by_round.items():
        padded = np.zeros(n)
        padded[piece] = score
        scores[key] = padded if clock.name == "wall" else np.interp(clock.reading, series.reading, padded)
    return univariate.answer("notebook", clock, series.reading[piece][peaks], scores=scores)


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """To 0..1; a constant becomes 0."""
    low, spread = values.min(), np.ptp(values)
    return (values - low) / spread if spread > 0 else np.zeros_like(values)
