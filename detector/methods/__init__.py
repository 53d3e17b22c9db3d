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
        self._methods: dict[str, Method | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Method:
        method: Method = self._methods[name] or import_module(f"{__name__}.{name}").detect
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def register(self, name: str, method: Method) -> None:
        """Add a method that is none of ours."""
        self._methods[name] = method


METHODS = _Methods("paper", "track", "pelt", "dynp", "binseg", "jenks")
