from dataclasses import replace

import numpy as np
import pytest

from epochcast.regressor import Catalog, Gpu, Profile
from epochcast.regressor import ridge as model
from epochcast.regressor.job_types import job_type_of, network_family, network_of_command
from epochcast.regressor.pairs import make_pairs
from epochcast.regressor.protocols import splits
from epochcast.regressor.ridge import BlockedRidge, MeasuredRate, Work, log_step

GPUS = ("T4", "V100 SXM2 16GB", "A100 SXM4 40GB", "H100 SXM5", "RTX A6000")
CNN, LLM = Work("tf32", "cnn"), Work("mixed", "llm", gpus=8)


def made_up_rates(catalog: Catalog, seed: int = 0) -> list[MeasuredRate]:
    """Works of two kinds on all GPUs but for some holes, at random rates."""
    rng = np.random.default_rng(seed)
    return [
        MeasuredRate(f"{number}", work._replace(family=f"f{number % 4}"), catalog[gpu], rng.normal(), "here")
        for number in range(16)
        for work in ((CNN, LLM)[number % 2],)
        for gpu in GPUS
        if rng.random() < 0.8
    ]


def row(ridge: BlockedRidge, gpu: Gpu, work: Work) -> np.ndarray:
    z = np.zeros(len(ridge._scales()))
    columns, values, _ = ridge._rows([gpu], work, ridge._sheets([gpu], work.precision))
    z[columns] = values[0]
    return z


def test_answers_are_those_of_one_gaussian_process(catalog: Catalog) -> None:
    """Mean and variance of the same question by the kernel form (Rasmussen and Williams 2006, eq. 2.25)."""
    rates = made_up_rates(catalog)
    ridge = BlockedRidge().fit(rates)
    scales = ridge._scales() ** 2
    Z = np.array([row(ridge, rate.gpu, rate.work) for rate in rates])
    y = np.array([rate.log_rate for rate in rates])
    same = np.array([[one.key == other.key for other in rates] for one in rates])
    K = Z * scales @ Z.T + 1e4 * same + ridge.noise("here") ** 2 * np.eye(len(y))
    for work in (CNN._replace(family="f0"), LLM._replace(family="f1", short=True)):
        change = row(ridge, catalog["T4"], work) - row(ridge, catalog["H100 SXM5"], work)
        cross = Z @ (scales * change)
        found = ridge.compare([catalog["T4"]], [catalog["H100 SXM5"]], [work])
        assert found.mean[0] == pytest.approx(cross @ np.linalg.solve(K, y), abs=1e-3)
        unseen = found.variance[0] - (change * scales @ change - cross @ np.linalg.solve(K, cross))
        assert -1e-4 < unseen < 0.12  # levels that the holes left out, and no short step was measured


def test_less_is_known_of_new_gpus_and_families(catalog: Catalog) -> None:
    ridge = BlockedRidge().fit(made_up_rates(catalog))
    stated = CNN._replace(family="f0")
    asked = [(stated, "A100 SXM4 40GB"), (CNN, "A100 SXM4 40GB"), (CNN, "A100 PCIe 40GB"), (CNN, "RTX 4090")]
    targets, works = [catalog[gpu] for _, gpu in asked], [work for work, _ in asked]
    variance = ridge.compare([catalog["T4"]] * 4, targets, works).variance
    assert list(variance) == sorted(variance) and len(set(variance)) == 4
    assert ridge.knows(targets[0]) and not ridge.knows(targets[2])


def test_scatter_is_learnt_by_origin(catalog: Catalog) -> None:
    rng = np.random.default_rng(0)
    rates = [
        MeasuredRate(f"{origin}{work}", CNN._replace(family=origin), catalog[gpu], rng.normal(0, scatter), origin)
        for origin, scatter, works in (("quiet", 0.05, 40), ("loud", 0.2, 40), ("few", 0.2, 5))
        for work in range(works)
        for gpu in GPUS
    ]
    ridge = BlockedRidge().fit(rates)
    assert ridge.noise("quiet") == pytest.approx(0.05, rel=0.15) and ridge.noise("loud") == pytest.approx(0.2, rel=0.15)
    assert ridge.noise("few") == ridge.noise(None) == model._NOISE


def test_a_step_is_as_short_as_on_any_gpu(catalog: Catalog) -> None:
    """Twice as long on a GPU half as fast is as short; a step that fills a GPU is not."""
    slow, fast = (log_step(step_s, catalog[gpu], "tf32") for step_s, gpu in ((0.02, "T4"), (0.02, "H100 SXM5")))
    assert slow < fast < 0 < log_step(10.0, catalog["T4"], "tf32")


def test_a_user_without_l2_in_the_catalogue_gets_an_answer(catalog: Catalog) -> None:
    mine = replace(catalog["L4"], name="Mine", l2_cache=None)
    ridge = BlockedRidge().fit(made_up_rates(catalog))
    assert np.isfinite(ridge.compare([catalog["T4"]], [mine], [CNN]).mean[0])


def test_names_of_networks() -> None:
    """Equal networks of all collections are one family, and every group of the public rates has its type."""
    names = ("resnet50", "ResNet-50", "MxNet/Classification/RN50v1.5", "TensorFlow/Classification/ConvNets/resnet50v1.5")
    assert {network_family(name) for name in names} == {"resnet"} and {job_type_of(name) for name in names} == {"cnn"}
    assert network_family("PyTorch/LanguageModeling/Transformer-XL") == network_family("transformerxllarge") == "transformerxl"
    assert network_family("PyTorch/Recommendation/DLRM") == "dlrm" and network_family("Something New") == "somethingnew"
    types = {"llama2_70b_lora": "llm", "mpt-30b": "llm", "stable_diffusion": "diffusion", "gnmt": "rnn", "rnnt": "speech"}
    assert {name: job_type_of(name) for name in (*types, "a novel thing")} == types | {"a novel thing": None}


@pytest.mark.parametrize(
    ("command", "network"),
    [
        ("torchrun --nproc_per_node 8 train_llama.py --data /data/bert", ("llama", "llm")),
        ("python train_cifar10.py --arch resnet50 /data/imagenet", ("resnet", "cnn")),
        ("python -m nanogpt.train", ("gpt", "llm")),
        ("accelerate launch train_text_to_image.py --model_name=runwayml/stable-diffusion-v1-5", ("diffusion", "diffusion")),
        ("yolo train model=yolov8n.pt data=coco.yaml", ("yolo", "cnn")),
        ("python run_glue.py --model_name_or_path /home/bertrand/roberta-base/", ("bert", "transformer")),
        ("python train_cifar10.py --model vit_b_16", None),
        ("/home/bertrand/bin/python /home/bertrand/llama/train.py --out resnet --token=gpt", None),
        ("env WANDB_API_KEY=gpt python write_influx.py --model", None),
    ],
)
def test_the_network_of_a_command(command: str, network: tuple[str, str] | None) -> None:
    """Where several types fit, or only a folder, a part of a script's word, or another option does, there is none."""
    assert network_of_command(command.split()) == network


def test_families_leave_together(rates: list[Profile], catalog: Catalog) -> None:
    assert all(profile.type for profile in rates)
    pairs = make_pairs(rates, catalog)
    for train, test in splits(pairs, "P3", families=True):
        held, tested = ({network_family(str(pairs[row].source.group)) for row in rows} for rows in (train, test))
        assert not held & tested
