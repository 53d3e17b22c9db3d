"""Templates: where to take the first one, how well one matches everywhere, where in it the epoch begins."""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import circular_runs

#: Windows tried as the first template, from ../shared/research/detector.md, 4.
SEEDS = 24

#: The least energy of a window, as a share of the mean one. The share by choice; without it and the moving mean
#: temperature and memory matched everywhere (decision 0004).
FLAT = 0.05


class Matching:
    """Channels, (c, n), to be matched with many templates: what does not depend on the template is worked out once."""

    def __init__(self, channels: NDArray[np.float64]) -> None:
        self.channels = channels
        rows, n = channels.shape
        self._size = 1 << (n - 1).bit_length()  # what wraps around is beyond the last whole window
        self._spectrum = np.fft.rfft(channels, self._size, axis=1)
        self._totals = np.zeros((2 * rows, n + 1))
        np.cumsum(np.concatenate([channels, channels**2]), axis=1, out=self._totals[:, 1:])
        self._variance = channels.var(axis=1).sum()
        self._energies: dict[int, NDArray[np.float64]] = {}

    def energy(self, width: int) -> NDArray[np.float64]:
        """Of every window, about its mean, summed over channels; with a floor, so that flat stretches match nothing."""
        if width not in self._energies:
            rows = len(self.channels)
            sums = self._totals[:, width:] - self._totals[:, :-width]
            energy = (sums[rows:] - sums[:rows] ** 2 / width).sum(axis=0)
            self._energies[width] = np.maximum(energy, FLAT * width * self._variance)
        return self._energies[width]

    def correlate(self, template: NDArray[np.float64]) -> NDArray[np.float64]:
        """Normalised cross-correlation of a template, (c, w), with every window: (n - w + 1,), about -1..1."""
        centred = template - template.mean(axis=1, keepdims=True)
        n, width = self.channels.shape[1], template.shape[1]
        spectrum = (self._spectrum * np.fft.rfft(centred, self._size, axis=1).conj()).sum(axis=0)
        product = np.fft.irfft(spectrum, self._size)[: n - width + 1]
        return np.asarray(product / np.sqrt(self.energy(width) * (centred**2).sum() + 1e-12))


def seeds(matching: Matching, width: int, most: int) -> list[int]:
    """Starts of the windows that are most like those one and two periods before and after them, the best first.

    They lie at least half a width apart, as neighbours would lead to the same track.
    """
    channels, energy = matching.channels, matching.energy(width)
    n = channels.shape[1]
    slack = max(1, width // 10)  # by choice
    views = np.lib.stride_tricks.sliding_window_view(channels, width, axis=1)
    scored = []
    for start in np.unique(np.linspace(0, n - width, SEEDS).astype(int)).tolist():
        window = channels[:, start : start + width]
        window = window - window.mean(axis=1, keepdims=True)
        matches = []
        for offset in (-2, -1, 1, 2):
            low, high = start + offset * width - slack, start + offset * width + slack
            low, high = max(low, 0), min(high, n - width)
            if high >= low:
                product = np.einsum("cnw,cw->n", views[:, low : high + 1], window)
                matches.append(float((product / np.sqrt(energy[low : high + 1] * (window**2).sum() + 1e-12)).max()))
        if matches:
            scored.append((float(np.mean(matches)), start))
    chosen: list[int] = []
    for _, start in sorted(scored, reverse=True):
        if all(abs(start - other) >= width / 2 for other in chosen):
            chosen.append(start)
        if len(chosen) == most:
            break
    return chosen


def windows(channels: NDArray[np.float64], starts: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    """(k, c, width): the windows that begin at `starts`; those that leave the trace are left out."""
    inside = starts[(starts >= 0) & (starts + width <= channels.shape[1])]
    return np.lib.stride_tricks.sliding_window_view(channels, width, axis=1)[:, inside].transpose(1, 0, 2)


def median_window(many: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median of windows, (k, c, width) -> (c, width): what ``np.median`` gives, in a quarter of its time."""
    ordered, half = np.sort(many, axis=0), len(many) // 2
    return np.asarray(ordered[half] if len(many) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def boundary_phase(template: NDArray[np.float64]) -> int:
    """Bin of one period at which the epoch begins: the end of its longest stretch unlike the rest (validation, gap).

    The first principal component of the template is split into two classes by Otsu's threshold; the smaller class is the
    stretch between trainings. The period is circular.
    """
    centred = template - template.mean(axis=1, keepdims=True)
    curve = np.linalg.svd(centred, full_matrices=False)[2][0]
    _, end = max(circular_runs(minority(curve)), key=lambda run: run[1] - run[0], default=(0, 0))
    return int(end % curve.size)


def minority(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are of the smaller of two classes, by Otsu's threshold; (n,) -> (n,)."""
    high = values > _otsu(values)
    return high if 2 * high.sum() <= high.size else ~high


def _otsu(values: NDArray[np.float64]) -> float:
    """Threshold that splits the values into the two classes of the largest variance between them (Otsu 1979)."""
    ordered = np.sort(values)
    n = ordered.size
    below = np.arange(1, n)
    sums = np.cumsum(ordered)
    between = below * (n - below) * (sums[:-1] / below - (sums[-1] - sums[:-1]) / (n - below)) ** 2
    split = int(np.argmax(between))
    return float((ordered[split] + ordered[split + 1]) / 2)
