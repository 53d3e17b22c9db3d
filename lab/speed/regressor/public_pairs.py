"""The public pairs, each predicted by a recipe that was fitted without its fold: what the paper's tables are repeated on.

One shuffle (seed 0) for all recipes, so that they stand on the same folds. The paper's stack takes minutes for one: all
predictions are kept in a temporary folder for all scripts, until a setting, a library, the data or the regressor changes.
"""

import hashlib
import inspect
import tempfile
from dataclasses import dataclass
from pathlib import Path

import catboost
import numpy as np
import sklearn
from numpy.typing import NDArray

from epochcast import regressor
from epochcast.common.files import write_whole
from epochcast.regressor import load_catalog
from epochcast.regressor.pairs import Pair, make_pairs, target_seconds
from epochcast.regressor.protocols import splits
from epochcast.regressor.recipes import Recipe
from epochcast.regressor.scoring import score
from lab.corpora import load_corpus
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.speed.page import SHARED

DATA = SHARED / "black_box" / "cloud_hw_trainpred.csv"
PROFET = SHARED / "black_box" / "profet_epoch_latency.csv.gz"
RATES = SHARED / "cross_gpu" / "rates.csv.gz"

PROTOCOLS = ("P1", "P2", "P3", "P4")
"""In the order of how little training knows of what is asked; the first is the paper's, by all appearances."""

SEED = 0

FIGURES = ("MAPE %", "over folds", "median %", "RMSE s", "R²", "n")
"""What :meth:`PublicPairs.figures` gives."""

_KEPT = Path(tempfile.gettempdir()) / "epochcast-benchmarks"


@dataclass(frozen=True)
class PublicPairs:
    """The pairs of a data file, their measured seconds, and the names at their ends, each of shape (n,)."""

    data: Path
    pairs: list[Pair]
    actual: NDArray[np.float64]
    sources: NDArray[np.str_]
    targets: NDArray[np.str_]
    workloads: NDArray[np.str_]

    @classmethod
    def load(cls, data: Path = DATA) -> "PublicPairs":
        """Read a data file."""
        pairs = make_pairs(load_corpus(data), load_catalog())
        return cls(
            data,
            pairs,
            target_seconds(pairs),
            np.array([pair.source_gpu.name for pair in pairs]),
            np.array([pair.target_gpu.name for pair in pairs]),
            np.array([pair.source.workload for pair in pairs]),
        )

    def predicted(self, recipe: Recipe, protocol: str) -> NDArray[np.float64]:
        """Predict every pair out of fold, in seconds, shape (n,)."""
        known = [recipe.get_params(), inspect.getsource(type(recipe)), SEED, sklearn.__version__, catboost.__version__]
        fingerprint = hashlib.sha256(repr(known).encode())
        room = Path(regressor.__file__).parent
        for path in (self.data, *sorted(room.rglob("*.py")), *sorted(room.rglob("*.toml"))):
            fingerprint.update(path.read_bytes())
        kept = _KEPT / f"{type(recipe).__name__}-{protocol}-{fingerprint.hexdigest()[:16]}.npy"
        if not kept.is_file():
            seconds = out_of_fold(self.pairs, protocol, recipe, SEED)[0]
            kept.parent.mkdir(exist_ok=True)
            write_whole(kept, lambda file: np.save(file, seconds))
        loaded: NDArray[np.float64] = np.load(kept)
        return loaded

    def figures(self, predicted: NDArray[np.float64], protocol: str) -> list[str]:
        """MAPE and its range over the folds, median, RMSE, R² and n, as cells of a table."""
        overall = score(self.actual, predicted)
        by_fold = [score(self.actual[test], predicted[test]) for _, test in splits(self.pairs, protocol, SEED)]
        mape = [fold.mape for fold in by_fold if fold.n]
        return [
            f"{overall.mape:.2f}",
            f"{min(mape):.1f}–{max(mape):.1f}",
            f"{overall.median_ape:.2f}",
            f"{overall.rmse:.2f}",
            f"{overall.r2:.3f}",
            f"{overall.n}",
        ]
