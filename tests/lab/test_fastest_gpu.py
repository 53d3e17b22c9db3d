from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from epochcast.regressor import Catalog, Profile
from epochcast.regressor.pairs import Pair, make_pairs, target_seconds
from lab.evaluate.latency.fastest_gpu import FastestGpu, fastest_gpu, measured_profiles


def naive(pairs: Sequence[Pair], predicted: Sequence[float]) -> FastestGpu:
    """In plain loops: gather the pairs of each profile, rank it, look up what the choice takes."""
    regrets = []
    for profile in {id(pair.source): pair.source for pair in pairs}.values():
        asked = [row for row, pair in enumerate(pairs) if pair.source is profile]
        if len(asked) < 2 or any(np.isnan(predicted[row]) for row in asked):
            continue
        best, best_guess, least = profile.epoch_s, profile.epoch_s, profile.epoch_s
        for row in asked:
            if predicted[row] < best_guess:
                best, best_guess = pairs[row].target_s, predicted[row]
            least = min(least, pairs[row].target_s)
        regrets.append(best / least - 1)
    return FastestGpu(sum(regret == 0 for regret in regrets) / len(regrets), 100 * sum(regrets) / len(regrets), len(regrets))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.0, 0.3, 2.0])
def test_is_what_plain_loops_give(made_up_profiles: list[Profile], catalog: Catalog, seed: int, noise: float) -> None:
    pairs = make_pairs(made_up_profiles, catalog)
    rng = np.random.default_rng(seed)
    actual = target_seconds(pairs)
    predicted = actual * np.exp(rng.normal(0, noise, len(pairs)))
    predicted[rng.random(len(pairs)) < 0.05] = np.nan
    found, expected = fastest_gpu(pairs, actual, predicted), naive(pairs, predicted.tolist())
    assert found.n == expected.n and found.right == pytest.approx(expected.right)
    assert found.regret == pytest.approx(expected.regret)
    assert (found.right == 1) == (noise == 0)


def test_a_question_names_its_own_gpu_first_and_has_seconds_of_each(
    make_profile: Callable[..., Profile], catalog: Catalog
) -> None:
    seconds = {"T4": 4.0, "V100 SXM2 16GB": 2.0, "A10G": 3.0}
    profiles = [make_profile(gpu, epoch_s=epoch_s, workload="w") for gpu, epoch_s in seconds.items()]
    pairs = make_pairs([*profiles, replace(profiles[2], epoch_s=5.0)], catalog)
    asked = measured_profiles(pairs)
    assert [question.gpus[0] for question in asked] == ["T4", "V100 SXM2 16GB", "A10G", "A10G"]
    assert asked[0].gpus == ("T4", "V100 SXM2 16GB", "A10G")
    assert asked[0].seconds(target_seconds(pairs)).tolist() == [4.0, 2.0, 4.0]
    assert asked[3].seconds(target_seconds(pairs)).tolist() == [5.0, 4.0, 2.0]
