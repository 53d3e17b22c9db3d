"""Power and energy on another GPU: limits that must hold, and how wrong the rule is on the public pairs."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.regressor import Catalog, Prediction, Profile
from epochcast.regressor.energy import has_sparse_sensor, mean_power, predict_energy, predict_power
from epochcast.regressor.pairs import make_pairs

Make = Callable[..., Profile]


def _prediction(gpu: str, ratio: float, seconds: float | None = None, factor: float = 1.2) -> Prediction:
    ends = (None, None) if seconds is None else (seconds / factor, seconds * factor)
    return Prediction(gpu, ratio, seconds, *ends, "test", ratio / factor, ratio * factor, "ensemble", 1.0, ())


def test_the_source_gpu_keeps_its_measured_power(catalog: Catalog, make_profile: Make) -> None:
    t4 = catalog["T4"]
    profile = make_profile(epoch_s_low=9.0, epoch_s_high=12.0)
    energy = predict_energy(profile, _prediction("T4", 1.0, 10.0, 1.0), t4, t4)
    assert energy is not None and energy.joules is not None
    assert energy.watts.value == energy.watts.low == energy.watts.high == mean_power(profile) == 60.0
    assert (energy.joules.value, energy.joules.low, energy.joules.high) == pytest.approx((600.0, 540.0, 720.0))


def test_half_the_uncertainty_of_the_ratio_goes_into_the_energy(catalog: Catalog, make_profile: Make) -> None:
    t4, a10g, profile = catalog["T4"], catalog["A10G"], make_profile()
    certain, unsure = (predict_energy(profile, _prediction("A10G", 0.5, 5.0, factor), t4, a10g) for factor in (1.0, 4.0))
    assert certain is not None and unsure is not None and certain.joules is not None and unsure.joules is not None
    own, both = (np.log(one.joules.high / one.joules.value) for one in (certain, unsure))
    assert both**2 == pytest.approx(own**2 + np.log(2.0) ** 2)


def test_no_more_power_than_the_board_takes(catalog: Catalog, make_profile: Make) -> None:
    t4, l4, profile = catalog["T4"], catalog["L4"], make_profile()
    energy = predict_energy(profile, _prediction("L4", 0.3, 3.0, 2.0), t4, l4)
    assert energy is not None and energy.joules is not None
    assert energy.watts.value == energy.watts.high == l4.tdp > energy.watts.low
    assert energy.joules.high > 1.99 * energy.joules.value  # at the TDP all of the ratio's doubt is the energy's


def test_without_power_or_without_epochs(catalog: Catalog, make_profile: Make) -> None:
    t4, a10g = catalog["T4"], catalog["A10G"]
    assert predict_energy(make_profile(metrics={}, feature_set="none"), _prediction("A10G", 0.5, 5.0), t4, a10g) is None
    energy = predict_energy(make_profile(epoch_s=None), _prediction("A10G", 0.5), t4, a10g)
    assert energy is not None and energy.joules is None
    average = {"power_average": make_profile().metrics["power"]}
    assert mean_power(make_profile(metrics=average, feature_set="none")) == 60.0


@given(st.floats(5, 700), st.floats(0.05, 20), st.sampled_from(["T4", "A10G", "H100 SXM5"]))
def test_power_stays_below_the_tdp_and_falls_with_time(catalog: Catalog, watts: float, ratio: float, target: str) -> None:
    source, other = catalog["V100 SXM2 16GB"], catalog[target]
    power = predict_power(watts, source, other, ratio)
    assert 0 < power <= other.tdp
    assert predict_power(watts, source, other, ratio * 1.5) <= power


def test_gpus_of_one_job_add_up(catalog: Catalog, make_profile: Make) -> None:
    one = predict_energy(make_profile(), _prediction("A10G", 0.5, 5.0), catalog["T4"], catalog["A10G"])
    none = predict_energy(make_profile(epoch_s=None), _prediction("A10G", 0.5), catalog["T4"], catalog["A10G"])
    assert one is not None and none is not None and one.joules is not None
    both = one.plus(one)
    assert both.watts == one.watts.times(2) and both.joules == one.joules.times(2)
    assert one.plus(none).joules is None


def test_only_a100_and_h100_are_known_to_look_away(catalog: Catalog) -> None:
    assert {name.split()[0] for name, gpu in catalog.items() if has_sparse_sensor(gpu)} == {"A100", "H100"}


def test_the_rule_beats_simpler_ones_on_the_public_pairs(public_profiles: list[Profile], catalog: Catalog) -> None:
    pairs = make_pairs(public_profiles, catalog)
    measured = {(one.workload, catalog.resolve(one.gpu).name): mean_power(one) for one in public_profiles}
    source = np.array([measured[pair.source.workload, pair.source_gpu.name] for pair in pairs])
    actual = np.array([measured[pair.source.workload, pair.target_gpu.name] for pair in pairs])
    ratio = np.array([(pair.target_s or 0.0) / (pair.source.epoch_s or 1.0) for pair in pairs])
    asked = zip(source, pairs, ratio, strict=True)
    ours = [predict_power(watts, pair.source_gpu, pair.target_gpu, one) for watts, pair, one in asked]
    tdp = np.array([pair.target_gpu.tdp / pair.source_gpu.tdp for pair in pairs])
    errors = [np.abs(guess / actual - 1).mean() for guess in (np.array(ours), source / ratio, source * tdp**0.5, source)]
    assert errors[0] < 0.13 and errors[0] < 0.75 * min(errors[1:])
