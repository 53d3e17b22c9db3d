"""The detection methods: one file each, one line here.

A method is a function of the cleaned signals and the chosen clock, with its own parameters as keywords: `detect` of its file.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module

from epochcast.detector.epochs import Detection

Method = Callable[..., Detection]


class _Methods(Mapping[str, Method]):
    """Name -> method, whose file is imported on first use: what compares with `track` loads most of SciPy."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Method:
        if name not in self._names:
            raise KeyError(name)
        method: Method = import_module(f".{name}", __name__).detect
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


METHODS: Mapping[str, Method] = _Methods(
    "paper",
    "track",
    "notebook",
    "pelt",
    "dynp",
    "binseg",
    "jenks",
    "autocorrelation",
    "harmonic",
)
