"""Plans: what a grid holds, what the shipped ones are, and that wrong ones are refused."""

from pathlib import Path

import pytest

from epochcast.analyzer.errors import InputError
from lab.campaign.plan import Workload, read_plan, shipped_plans

GOOD = 'network = "LeNet5"\nbatch_size = 16\nimage_size = 32\nsamples = 100\n'
ONE = f"[[workload]]\n{GOOD}"


def _written(folder: Path, text: str) -> str:
    path = folder / "plan.toml"
    path.write_text(text)
    return str(path)


def test_lists_make_a_grid_in_the_order_of_the_plan(tmp_path: Path) -> None:
    text = '[[workload]]\nnetwork = ["A", "b.c:D"]\nbatch_size = [16, 32]\nimage_size = 64\nsamples = 100\nprecision = "amp"\n'
    runs = read_plan(_written(tmp_path, text)).runs()
    assert [workload.text for workload, _ in runs] == [
        "A|16|64|100|amp",
        "A|32|64|100|amp",
        "b.c:D|16|64|100|amp",
        "b.c:D|32|64|100|amp",
    ]
    assert {epochs for _, epochs in runs} == {10}
    assert runs[3][0].file_name == "b.c_D_32_64_100_amp"


def test_equal_text_is_equal_work() -> None:
    one = Workload(network="A", batch_size=16, image_size=32, samples=100)
    assert one.text == "A|16|32|100"
    others = [one.model_copy(update=change) for change in ({"samples": 101}, {"precision": "amp"}, {"image_size": 33})]
    assert len({one.text, *(other.text for other in others)}) == 4


def test_every_shipped_plan_is_read_and_says_what_it_is() -> None:
    plans = shipped_plans()
    assert {"paper-grid", "ten-minutes-cpu", "ten-minutes-gpu"} <= set(plans)
    for name, about in plans.items():
        assert len(about) > 20
        assert read_plan(name).runs()
    assert len(read_plan("paper-grid").runs()) == 14 * 5 * 5
    assert read_plan("ten-minutes-cpu").overheads()
    assert [(one.network, one.pairs) for one in read_plan("paper-grid").overheads()][::13] == [("VGG19", 4), ("MNIST_CNN", 4)]


def test_shipped_plans_name_networks_that_exist() -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    from lab.campaign.networks import NETWORKS

    named = {workload.network for name in shipped_plans() for workload, _ in read_plan(name).runs()}
    assert named <= set(NETWORKS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[workload",
        f"{ONE}batchsize = 3",
        ONE.replace("= 16", "= 0"),
        ONE.replace("= 16", '= "16"'),
        f"{ONE}epochs = 1",
        ONE.replace("LeNet5", "a|b"),
        ONE.replace("= 16", "= 200"),
        f"{ONE}{ONE}",
        f"{ONE}[[overhead]]\n{GOOD}pairs = 1",
        f"time_budget_s = -1\n{ONE}",
    ],
)
def test_a_wrong_plan_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"plan\.toml"):
        read_plan(_written(tmp_path, text))


def test_an_unknown_plan_is_refused_with_those_that_come_along() -> None:
    with pytest.raises(InputError, match=r"cannot read the plan 'ten-minutes'.*ten-minutes-cpu"):
        read_plan("ten-minutes")
