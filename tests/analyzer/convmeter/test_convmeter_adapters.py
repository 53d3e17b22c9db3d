"""Each foreign table becomes points: units, names, metrics, and what is left out and why."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.backends.convmeter.adapters import NO_CONVNET, NO_FAMILY, NO_METRICS, read_all, read_any
from epochcast.analyzer.backends.convmeter.known_metrics import find_known
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.points import KEYS, TIMES
from epochcast.analyzer.errors import InputError

FEATURES = """\
model,img,ops,F,conv_in,conv_out,F_smallK,convW,W,L,nparam,F_sp,IO_sp,n_sp,F_lin,IO_lin,n_lin,IO_ew,n_ew,IO_bn,n_bn
small,224,30,5000,600,700,40,900,1400,6,12,4000,1300,5,1000,560,1,300,8,200,5
tokens,224,20,5000,600,700,40,900,1400,6,12,4000,1300,5,90000,2000,3,300,8,200,5
small,160,30,2500,300,350,20,900,1400,6,12,2000,650,5,1000,560,1,150,8,100,5
"""
FAMILIES = "model,family,conv\nsmall,tiny,True\ntokens,vit,False\nunseen,tiny,True\n"
INFER = """\
model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count
small.in1k,224,1000,256.0,256.0,1.4
small,160,2000,128.0,256,1.4
tokens,224,2000,64.0,128,1.4
unseen,224,2000,64.0,128,1.4
nobody,224,2000,64.0,128,1.4
small,224,,,,1.4
"""
TORCHVISION = """\
dir,dev,prec,ngpu,kind,model,ms,n,cv
a,GPU,half,1,infer,resnet18,10,50,0.1
b,GPU,half,1,infer,resnet18,30,50,0.1
c,GPU,half,1,infer,resnet18,12,50,0.1
a,GPU,half,1,train,resnet18,40,50,0.1
a,GPU,float,4,train,vgg11,90,50,0.1
"""
CONVNET = """\
model,family,block,image,batch,precision,phase,median_ms,iqr_ms,n,status,reason
resnet18,resnet,,64,8,fp32,inference,4,0,5,ok,
resnet18,resnet,,64,8,fp32,forward,5,0,5,ok,
resnet18,resnet,,64,8,fp32,step_adam,20,0,5,ok,
resnet18,resnet,,64,8,fp32,step_sgd,17,0,5,ok,
resnet18,resnet,BasicBlock7,64,8,fp32,inference,1,0,5,ok,
resnet18,resnet,,64,512,fp32,,,,,oom,no memory
lenet,lenet,,64,8,fp32,inference,1,0,5,ok,
"""


@pytest.fixture
def companions(tmp_path: Path) -> tuple[Path, Path]:
    features, families = tmp_path / "features.csv.gz", tmp_path / "families.csv"
    features.write_bytes(gzip.compress(FEATURES.encode()))
    families.write_text(FAMILIES)
    return features, families


def _file(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_timm_tables_become_points(tmp_path: Path, companions: tuple[Path, Path]) -> None:
    reading = read_all([_file(tmp_path, "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv", INFER)], *companions)
    points = reading.points
    assert list(points) == [*KEYS, *TIMES, *COLUMNS]
    assert points["network"].tolist() == ["small", "small"] and points["image_size"].tolist() == [224, 160]
    assert points["inference_seconds"].tolist() == [0.256, 0.128] and points["step_seconds"].isna().all()
    assert set(points["device"]) == {"nchw-pt240-cu124-rtx3090"} and set(points["precision"]) == {"amp"}
    assert set(points["family"]) == {"tiny"} and set(points["batch"]) == {256} and set(points["devices"]) == {1}
    assert reading.left_out == {NO_METRICS: 2, NO_CONVNET: 1} and reading.lacking == 2
    everything = read_all([tmp_path / "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"], *companions, convnets_only=False)
    assert everything.points["network"].tolist() == ["small", "small", "tokens"]


def test_training_tables_in_any_order_of_columns_and_under_any_name(tmp_path: Path, companions: tuple[Path, Path]) -> None:
    text = "train_batch_size,param_count,train_step_time,model,train_img_size\n64,1.4,50,small,224\n"
    points = read_any(_file(tmp_path, "my-gpu.csv", text), *companions)
    assert points[["batch", "step_seconds", "device", "precision"]].to_numpy().tolist() == [[64, 0.05, "my-gpu", "unstated"]]


def test_layer_features_are_counted_as_ours(tmp_path: Path, companions: tuple[Path, Path]) -> None:
    path = _file(tmp_path, "benchmark-infer-amp-x.csv", INFER)
    small, _, tokens = (row for _, row in read_all([path], *companions, convnets_only=False).points.iterrows())
    assert (small["flops"], small["spatial_flops"], small["conv_inputs"], small["narrow_flops"]) == (5000, 4000, 600, 40)
    assert (small["linear_weights"], small["linear_traffic"]) == (500, 60), "two FLOPs per weight; weights are no activations"
    assert (tokens["linear_weights"], tokens["linear_traffic"]) == (500, 1500), "no more than the kernels leave"
    assert (small["elementwise_operators"], small["operators"]) == (3, 25), "without what each batch norm allocates"
    assert (tokens["elementwise_operators"], tokens["operators"]) == (8, 20)
    assert small["parameter_tensors"] == 12 and small["grouped_flops"] == small["pooling_traffic"] == 0


def test_torchvision_times_are_medians_over_folders(tmp_path: Path) -> None:
    points = read_any(_file(tmp_path, "torchvision_step_times.csv", TORCHVISION)).set_index(["network", "precision"])
    resnet = points.loc[("resnet18", "fp16")]
    assert resnet["inference_seconds"] == pytest.approx(0.012) and resnet["step_seconds"] == pytest.approx(0.04)
    assert (resnet["batch"], resnet["image_size"], resnet["devices"], resnet["family"]) == (12, 224, 1, "resnet")
    known = find_known("resnet18", 224)
    assert known is not None and resnet["flops"] == known.values["flops"]
    vgg = points.loc[("vgg11", "fp32")]
    assert vgg["devices"] == 4 and np.isnan(vgg["inference_seconds"])


def test_convnet_bench_rows_join_their_phases_and_blocks_their_paths(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps({"device": {"name": "NVIDIA H200"}}))
    reading = read_all([_file(tmp_path, "convnet.csv", CONVNET)])
    points = reading.points.set_index("block")
    assert points.loc[""][["inference_seconds", "forward_seconds", "step_seconds"]].tolist() == pytest.approx(
        [0.004, 0.005, 0.02]
    )
    block = find_known("resnet18", 64, "BasicBlock7")
    assert block is not None and points.loc[block.block, "flops"] == block.values["flops"]
    assert set(points["device"]) == {"NVIDIA H200"} and reading.left_out == {NO_METRICS: 1}


def test_cpu_phases_are_two_points_and_a_step_is_their_sum(shared_data: Path) -> None:
    points = read_any(shared_data / "convnets" / "cpu_phases.csv")
    assert len(points) == 136 and points["inference_seconds"].count() == points["step_seconds"].count() == 68
    training = points[points["step_seconds"].notna()]
    phases = training[["forward_seconds", "backward_seconds", "update_seconds"]]
    assert np.allclose(phases.sum(axis=1), training["step_seconds"])
    first = training.iloc[0]
    known = find_known("alexnet", 128)
    assert (first["network"], first["batch"], first["family"]) == ("alexnet", 2, "alexnet") and known is not None
    for column in ("flops", "conv_inputs", "linear_weights", "narrow_flops", "layers", "parameter_tensors"):
        assert first[column] == known.values[column], column


def test_the_public_tables_have_as_many_convnets_as_the_research_counted(shared_data: Path) -> None:
    folder = shared_data / "convnets"
    told = (folder / "timm_layer_features.csv.gz", folder / "timm_families.csv")
    reading = read_all([folder / "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"], *told)
    assert len(reading.points) == 846 and reading.lacking == 0
    assert len(read_any(folder / "torchvision_step_times.csv.gz")) == 3 * 3 * 4 * 32


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("benchmark-infer-amp-x.csv", INFER, "--features"),
        ("other.csv", "a,b\n1,2\n", "match no known table"),
        ("torchvision.csv", TORCHVISION.replace("half", "int8"), "'int8'"),
        ("torchvision.csv", TORCHVISION.replace("10,50", "ten,50"), "'ten'"),
        ("torchvision.csv", TORCHVISION.splitlines()[0] + "\n", "no row"),
        ("torchvision.csv", TORCHVISION.replace("resnet18", "n").replace("vgg11", "n"), "metrics of 'n' are not"),
        ("convnet.csv", CONVNET.splitlines()[0] + "\nresnet18,r,,64,8,fp32,,,,,oom,\n", "no measured phase"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        read_any(_file(tmp_path, name, text))
    assert name in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("features", "families", "said"),
    [
        ("model,img\nsmall,224\n", FAMILIES, "lacks the column 'nparam'"),
        (FEATURES, "model,family\nsmall,tiny\n", "lacks the column 'conv'"),
        (FEATURES, FAMILIES.replace("True", "maybe"), "'maybe'"),
        (FEATURES.replace("5000", "many"), FAMILIES, "'F'.*'many'"),
        (FEATURES.replace("small", "other"), FAMILIES, "no usable network"),
    ],
)
def test_a_companion_that_does_not_fit_is_one_sentence(tmp_path: Path, features: str, families: str, said: str) -> None:
    paths = _file(tmp_path, "features.csv", features), _file(tmp_path, "families.csv", families)
    with pytest.raises(InputError, match=said):
        read_all([_file(tmp_path, "benchmark-infer-amp-x.csv", INFER)], *paths)


def test_a_network_without_a_family_cannot_leave_with_it(tmp_path: Path, companions: tuple[Path, Path]) -> None:
    features, families = companions
    families.write_text("model,family,conv\ntokens,vit,False\n")
    with pytest.raises(InputError, match="no usable network"):
        read_any(_file(tmp_path, "benchmark-infer-amp-x.csv", INFER), features, families)
    families.write_text("model,family,conv\ntokens,vit,True\n")
    assert read_all([tmp_path / "benchmark-infer-amp-x.csv"], features, families).left_out == {NO_METRICS: 2, NO_FAMILY: 2}


def test_families_override_those_of_a_table_where_they_are_told(tmp_path: Path) -> None:
    families = _file(tmp_path, "families.csv", "model,family,conv\nresnet18,mine,True\n")
    points = read_all([_file(tmp_path, "torchvision.csv", TORCHVISION)], None, families).points
    assert dict(zip(points["network"], points["family"], strict=True)) == {"resnet18": "mine", "vgg11": "vgg"}
