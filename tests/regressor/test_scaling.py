"""More GPUs in one machine: what is learnt, on jobs that it never saw, and what becomes of a prediction."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from epochcast.regressor import Catalog, LatencyPredictor, Profile
from epochcast.regressor.pairs import make_pairs
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.scaling import GpuCountScaling, Growth, growths_in

LAW = GpuCountScaling(log_cost=-2.0, link=0.4, rate=0.3, half_width=0.2)


def made_up(catalog: Catalog, law: GpuCountScaling = LAW, scatter: float = 0.05, seed: int = 0) -> list[Growth]:
    """Twelve groups of workloads on four kinds of GPUs."""
    rng = np.random.default_rng(seed)
    gpus = [catalog[name] for name in ("K80", "V100 SXM2 16GB", "RTX 4090", "H100 SXM5")]
    return [
        Growth(gpu, f"group {group}", 1, after, law.log_seconds(gpu, after) + rng.normal(0, scatter) * np.log2(after) ** 0.5)
        for group in range(12)
        for gpu in gpus
        for after in (2, 4, 8)
    ]


def test_a_law_is_found_again_with_its_scatter(catalog: Catalog) -> None:
    found = GpuCountScaling.fit(made_up(catalog))
    for name in ("T4", "A100 SXM4 80GB", "B200 SXM"):
        for gpus in (2, 8):
            assert found.log_seconds(catalog[name], gpus) == pytest.approx(LAW.log_seconds(catalog[name], gpus), abs=0.04)
    assert found.half_width == pytest.approx(0.05 * 1.645, rel=0.25)


def test_one_table_of_other_settings_spoils_little(catalog: Catalog) -> None:
    growths = made_up(catalog)
    growths[5] = growths[5]._replace(log_seconds=growths[5].log_seconds - 1.0)
    found = GpuCountScaling.fit(growths)
    assert found.log_seconds(catalog["T4"], 8) == pytest.approx(LAW.log_seconds(catalog["T4"], 8), abs=0.05)


def test_too_few_groups_leave_what_the_public_rates_said(catalog: Catalog) -> None:
    assert (
        GpuCountScaling.fit([])
        == GpuCountScaling.fit([one for one in made_up(catalog) if one.group < "group 3"][:40])
        == GpuCountScaling()
    )


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


def test_growths_are_of_one_work_on_one_kind_of_gpu(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    def run(gpu: str, gpus: int, seconds: float, **more: object) -> Profile:
        return make_profile(gpu, epoch_s=seconds, workload="net", group="family", gpus=gpus, **more)

    profiles = [
        run("T4", 2, 6.0, batch=32.0),
        run("T4", 1, 10.0, batch=32.0),
        run("T4", 8, 2.0, batch=16.0),
        run("A10G", 2, 4.0),
    ]
    growths = growths_in(profiles, catalog)
    assert [(one.gpu.name, one.group, one.before, one.after, one.batch_share) for one in growths] == [
        ("T4", "family", 1, 2, 1.0),
        ("T4", "family", 1, 8, 0.5),
    ]
    assert growths[0].log_seconds == pytest.approx(np.log(0.6))
    pairs = make_pairs(profiles, catalog)
    assert {(pair.source.gpus, pair.target_s) for pair in pairs} == {(2, 4.0), (2, 6.0)}, "equal work is on as many GPUs"


def test_the_public_rates_hold_growths_and_their_interval_holds(rates: list[Profile], catalog: Catalog) -> None:
    """The whole table, group by group: lab/speed/regressor/scaling.py."""
    growths = [one for one in growths_in(rates, catalog) if one.before == 1]
    assert len(growths) > 500 and {one.after for one in growths} == {2, 4, 8}
    fitted = GpuCountScaling.fit(growths_in(rates, catalog))
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


def test_a_job_that_runs_on_several_is_predicted_for_as_many(
    shipped: LatencyPredictor, make_profile: Callable[..., Profile]
) -> None:
    single, several = (shipped.predict(make_profile("T4", gpus=gpus), ["A10G", "T4"]) for gpus in (1, 8))
    ratios = ([one.ratio for one in of] for of in (single, several))
    assert next(ratios) == pytest.approx(next(ratios), rel=0.15) and {one.gpus for one in several} == {8}


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
