"""Where the standard deviations of ``regressor/speeds.py`` come from, and what each part of the model brings, as tables.

    EPOCHCAST_SHARED=../shared python benchmarks/regressor/speeds.py [--write]

The first table maximises the marginal likelihood of the measured rates. The second leaves a part out (its standard deviation
nearly 0) and scores both protocols.
"""

import math
from collections.abc import Iterator

import numpy as np
from public_pairs import DATA, header, line, options, report
from scipy.optimize import minimize

from epochcast.regressor import Profile, evaluate, load_catalog, load_corpus, speeds
from epochcast.regressor.pairs import make_pairs
from epochcast.regressor.recipes import SpeedsRecipe
from epochcast.regressor.recipes.speeds import rates_of
from epochcast.regressor.speeds import Rate, Speeds

RATES = DATA.parents[1] / "cross_gpu" / "rates.csv.gz"

SCALES = {
    "_SLOPE": "slopes of the data-sheet figures",
    "_SLOPE_OF_PRECISION": "the same, by precision",
    "_SLOPE_OF_JOB": "the same, by job",
    "_GPU": "a GPU's own speed",
    "_GPU_OF_JOB": "a GPU's own speed, by job",
    "_ARCHITECTURE_OF_JOB": "an architecture's speed, by precision and job",
    "_BATCH": "the batch",
    "_BATCH_OF_JOB": "the batch, by job",
}
_NONE = 1e-4


def lines() -> Iterator[str]:
    """Both tables, line by line as the figures come."""
    profiles, catalog = load_corpus(RATES), load_catalog()
    rates = rates_of(make_pairs(profiles, catalog))
    yield f"{len(rates)} rates of {len({rate.job for rate in rates})} jobs on {len({rate.gpu.name for rate in rates})} GPUs."
    yield ""
    yield from header("standard deviation of", "most likely", "in the model")
    likeliest = most_likely(rates)
    for name, what in SCALES.items():
        yield line(what, f"{likeliest[name]:.3f}", f"{getattr(speeds, name):g}")
    yield ""
    yield from header("", "new workload: MAPE, median %", "mean over groups", "new GPU: MAPE, median %")
    yield scored("as it is", profiles)
    for name, what in SCALES.items():
        held = getattr(speeds, name)
        setattr(speeds, name, _NONE)
        yield scored(f"without {what}", profiles)
        setattr(speeds, name, held)


def most_likely(rates: list[Rate]) -> dict[str, float]:
    """The standard deviations that maximise the marginal likelihood, the origins' scatter as the model estimates it."""
    names = list(SCALES)
    held = {name: getattr(speeds, name) for name in names}

    def negative(log_scales: np.ndarray) -> float:
        for name, value in zip(names, np.exp(log_scales).tolist(), strict=True):
            setattr(speeds, name, value)
        return -log_likelihood(Speeds().fit(rates))

    found = minimize(negative, np.log(list(held.values())), method="L-BFGS-B", bounds=[(math.log(0.005), 0.0)] * len(names))
    for name, value in held.items():
        setattr(speeds, name, value)
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def log_likelihood(model: Speeds) -> float:
    """Of the rates with all coefficients integrated out, up to a constant (Rasmussen and Williams 2006, eq. 2.30)."""
    fit = 0.0
    for job in model._jobs.values():
        fit += job.log_speed @ job.inverse @ job.log_speed - np.linalg.slogdet(job.inverse)[1]
    shared = np.linalg.slogdet(model._information)[1] + 2 * np.log(model._shared_scales()).sum()
    return -0.5 * float(fit - model._evidence @ model._mean + shared)


def scored(what: str, profiles: list[Profile]) -> str:
    """A line of the second table."""
    catalog = load_catalog()
    workload, gpu = (
        evaluate(profiles, catalog, protocol=protocol, recipe=SpeedsRecipe()) for protocol in ("new-workload", "new-gpu")
    )
    return line(
        what,
        f"{workload.mape:.1f}, {workload.median_ape:.1f}",
        f"{workload.mape_by_group:.1f}",
        f"{gpu.mape:.1f}, {gpu.median_ape:.1f}",
    )


if __name__ == "__main__":
    report("speeds", lines(), options(__doc__ or ""))
