"""The public pairs, each predicted by a recipe that was fitted without its fold: what the paper's tables are repeated on.

One shuffle (seed 0) for all recipes, so that they stand on the same folds; the paper's stack takes minutes for one.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import catboost
import numpy as np
import sklearn
from numpy.typing import NDArray

from epochcast import regressor
from epochcast.analyzer.files import write_whole
from epochcast.regressor import load_catalog, load_corpus
from epochcast.regressor.features import paper_features
from epochcast.regressor.pairs import Pair, make_pairs, target_seconds
from epochcast.regressor.protocols import out_of_fold, splits
from epochcast.regressor.recipes import Recipe
from epochcast.regressor.recipes.raw_seconds import RawSecondsRecipe
from epochcast.regressor.scoring import Scores, score

from ..page import REGRESSOR, Page, publish
from ..page import options as page_options

DATA = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data" / "black_box" / "cloud_hw_trainpred.csv"
RATES = DATA.parents[1] / "cross_gpu" / "rates.csv.gz"

PROTOCOLS = ("P1", "P2", "P3", "P4")
"""In the order of how little training knows of what is asked; the first is the paper's, by all appearances."""

SEED = 0


@dataclass(frozen=True)
class PublicPairs:
    """The pairs of a data file, their measured seconds, and a folder where predictions are kept."""

    pairs: list[Pair]
    actual: NDArray[np.float64]
    sources: NDArray[np.str_]
    targets: NDArray[np.str_]
    workloads: NDArray[np.str_]
    keep: Path | None

    @classmethod
    def load(cls, keep: Path | None = None, data: Path = DATA) -> "PublicPairs":
        """Read a data file."""
        pairs = make_pairs(load_corpus(data), load_catalog())
        return cls(
            pairs,
            target_seconds(pairs),
            np.array([pair.source_gpu.name for pair in pairs]),
            np.array([pair.target_gpu.name for pair in pairs]),
            np.array([pair.source.workload for pair in pairs]),
            keep,
        )

    def predicted(self, recipe: Recipe, protocol: str) -> NDArray[np.float64]:
        """Predict every pair out of fold, in seconds, shape (n,)."""
        if self.keep is None:
            return out_of_fold(self.pairs, protocol, recipe, SEED)[0]
        kept = self.keep / f"{type(recipe).__name__}-{protocol}-{self._fingerprint(recipe)}.npy"
        if not kept.is_file():
            seconds = out_of_fold(self.pairs, protocol, recipe, SEED)[0]
            self.keep.mkdir(parents=True, exist_ok=True)
            write_whole(kept, lambda file: np.save(file, seconds))
        loaded: NDArray[np.float64] = np.load(kept)
        return loaded

    def _fingerprint(self, recipe: Recipe) -> str:
        """What a prediction depends on: settings, libraries, data; and our code, but for the paper's models."""
        known = hashlib.sha256(json.dumps([recipe.get_params(), SEED, sklearn.__version__, catboost.__version__]).encode())
        known.update(paper_features(self.pairs).to_numpy().tobytes() + self.actual.tobytes())
        if not isinstance(recipe, RawSecondsRecipe):
            for path in sorted(Path(regressor.__file__).parent.rglob("*.py")):
                known.update(path.read_bytes())
        return known.hexdigest()[:16]

    def by_fold(self, predicted: NDArray[np.float64], protocol: str) -> list[Scores]:
        """Error figures of each fold."""
        return [score(self.actual[test], predicted[test]) for _, test in splits(self.pairs, protocol, SEED)]

    def figures(self, predicted: NDArray[np.float64], protocol: str) -> list[str]:
        """MAPE and its range over the folds, median, RMSE, R² and n, as cells of a table."""
        overall = score(self.actual, predicted)
        folds = [one.mape for one in self.by_fold(predicted, protocol) if one.n]
        return [
            f"{overall.mape:.2f}",
            f"{min(folds):.1f}–{max(folds):.1f}",
            f"{overall.median_ape:.2f}",
            f"{overall.rmse:.2f}",
            f"{overall.r2:.3f}",
            f"{overall.n}",
        ]


FIGURES = ("MAPE %", "over folds", "median %", "RMSE s", "R²", "n")
"""What :meth:`PublicPairs.figures` gives."""


def header(*names: str) -> Iterator[str]:
    """The first two lines of a table."""
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"


def line(*cells: str) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def options(description: str) -> argparse.Namespace:
    """The options that the scripts have in common."""
    parser = page_options(description)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for predictions, so that each is made once")
    return parser.parse_args()


def report(part: str, lines: Iterable[str], chosen: argparse.Namespace, page: str = REGRESSOR.name) -> None:
    """Print the lines as they come, and put them between the markers of ``part`` of docs/``page``.md if asked to."""
    publish(Page(page), part, lines, write=chosen.write)
