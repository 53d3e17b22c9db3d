"""More GPUs in one machine: what becomes of a prediction."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from epochcast.regressor import Catalog, LatencyPredictor, Profile
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.scaling import GpuCountScaling
from lab.speed.regressor.scaling import Fitted, growths_in


def test_more_gpus_are_faster_but_less_than_so_many_times(catalog: Catalog) -> None:
    for gpu in catalog.values():
        speeds = [np.exp(-GpuCountScaling().log_seconds(gpu, gpus)) for gpus in (1, 2, 4, 8)]
        assert speeds[0] == 1
        assert all(1 < later / earlier < 2 for earlier, later in pairwise(speeds)), gpu.name


def test_a_faster_link_and_a_larger_batch_lose_less(catalog: Catalog) -> None:
    bridged = replace(catalog["RTX 4090"], nvlink_bandwidth=6e11)
    assert GpuCountScaling().log_seconds(bridged, 8) < GpuCountScaling().log_seconds(catalog["RTX 4090"], 8)
    unknown = replace(catalog["RTX 4090"], nvlink_bandwidth=None, pcie_gen=None)
    assert GpuCountScaling().log_seconds(unknown, 8) == pytest.approx(GpuCountScaling().log_seconds(catalog["RTX 4090"], 8))
    assert GpuCountScaling().log_seconds(bridged, 8, batch=4.0) < GpuCountScaling().log_seconds(bridged, 8)


def test_the_public_rates_hold_growths_and_their_interval_holds(rates: list[Profile], catalog: Catalog) -> None:
    """The whole table, group by group: lab/speed/regressor/scaling.py."""
    growths = [one for one in growths_in(rates, catalog) if one.before == 1]
    assert len(growths) > 500 and {one.after for one in growths} == {2, 4, 8}
    fitted = Fitted.fit(growths_in(rates, catalog))
    assert vars(fitted) == pytest.approx(vars(GpuCountScaling()), rel=0.02), "the defaults are what these rates say"
    outside = [abs(fitted.error(one)) > fitted.width(1, one.after) for one in growths]
    assert 0.06 < np.mean(outside) < 0.14


def test_a_prediction_for_more_gpus_is_shorter_and_wider(
    shipped: LatencyPredictor, make_profile: Callable[..., Profile]
) -> None:
    one = shipped.predict(make_profile("T4", epoch_s_low=9.5, epoch_s_high=10.5), ["H100 SXM5"])[0]
    eight = shipped.on_gpus(one, 8)
    assert shipped.on_gpus(one, 1) is one and eight.gpus == 8
    assert one.seconds and eight.seconds and eight.low and eight.high and one.low and one.high
    assert 1 / 8 < eight.ratio / one.ratio < 1 / 5 and eight.seconds / one.seconds == pytest.approx(eight.ratio / one.ratio)
    assert eight.high / eight.low > one.high / one.low and eight.ratio_high / eight.ratio_low > one.ratio_high / one.ratio_low
    assert "8 GPUs instead of 1: 7." in eight.why
    back = shipped.on_gpus(eight, 1)
    assert back.ratio == pytest.approx(one.ratio)


def test_a_larger_batch_is_what_the_rates_say_of_it(shipped: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    source = shipped.catalog["T4"]
    large, small, same = (shipped.predict(make_profile("T4"), [name])[0] for name in ("H100 SXM5", "K80", "T4"))
    grown = shipped.with_larger_batch(large, source)
    assert grown.batch == pytest.approx(5.0**1.15, rel=1e-6) and 0.85 < grown.ratio / large.ratio < 1
    assert grown.ratio_high / grown.ratio_low > 2 * large.ratio_high / large.ratio_low, "by job it differs much"
    assert [shipped.with_larger_batch(one, source).batch for one in (small, same)] == [1, 1]
    on_eight = shipped.with_larger_batch(shipped.on_gpus(large, 8), source)
    assert on_eight.ratio / shipped.on_gpus(large, 8).ratio < grown.ratio / large.ratio, "and it has less to exchange"


def test_what_is_measured_has_the_width_of_the_change_alone() -> None:
    here = Prediction("T4", 1.0, 10.0, 10.0, 10.0, "here", 1.0, 1.0, "measured", 1.0, (), {"fp32": 1.0})
    changed = here.changed(np.log(0.5), 0.2, why="half", gpus=2)
    assert (changed.ratio, changed.seconds, changed.by_precision) == (0.5, 5.0, {"fp32": 0.5})
    assert changed.route == "scaled" and changed.why == "here; half"
    assert (changed.low, changed.high) == pytest.approx((5 * np.exp(-0.2), 5 * np.exp(0.2)))
    assert (changed.ratio_low, changed.ratio_high) == pytest.approx((0.5 * np.exp(-0.2), 0.5 * np.exp(0.2)))
    ratio_only = replace(here, seconds=None, low=None, high=None).changed(0.0, 0.2, why="nothing")
    assert (ratio_only.seconds, ratio_only.low, ratio_only.gpus) == (None, None, 1)
