"""Links, clusters and collectives: units, limits, placement, measured times."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.backends.distributed.communication.cluster import (
    Cluster,
    Link,
    all_gather_seconds,
    all_reduce_seconds,
    cluster_for,
    fitted_all_reduces,
    link_named,
    load_links,
    point_to_point_seconds,
    reduce_scatter_seconds,
)
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.distributed.all_reduces import AllReduceTable, fit_all_reduce, read_all_reduces

GIB = 2**30
A100 = load_catalog().resolve("A100 SXM4 80GB")


def plain(nvlink: float = 300e9, network: float = 25e9, per: str = "gpu") -> Cluster:
    """Nodes of 8 without latency, efficiency or measured times: bytes over bytes/s."""
    intra = Link(name="in", bandwidth=nvlink, latency=0.0)
    inter = Link(name="between", bandwidth=network, latency=0.0, per=per)
    return Cluster(A100, 8, intra, inter, intra_efficiency=1.0)


def test_a_gibibyte_over_eight_gpus_takes_two_times_seven_eighths_over_the_bandwidth() -> None:
    cluster = plain()
    expected = 2 * 7 / 8 * GIB / 300e9
    assert all_reduce_seconds(cluster, GIB, 8) == pytest.approx(expected, rel=0.01)
    assert all_gather_seconds(cluster, GIB, 8) == pytest.approx(expected / 2, rel=0.01)
    assert reduce_scatter_seconds(cluster, GIB, 8) == pytest.approx(expected / 2, rel=0.01)
    assert point_to_point_seconds(cluster, GIB) == pytest.approx(GIB / 300e9, rel=0.01)


def test_between_nodes_each_gpu_has_its_card_or_a_share_of_the_nodes() -> None:
    """Data ranks 8 apart: eight rings through each node, one per GPU."""
    ring = 2 * 15 / 16 * GIB
    assert all_reduce_seconds(plain(per="gpu"), GIB, 16, 8) == pytest.approx(ring / 25e9, rel=0.01)
    assert all_reduce_seconds(plain(per="node"), GIB, 16, 8) == pytest.approx(ring / (25e9 / 8), rel=0.01)


def test_the_hierarchical_way_is_taken_where_it_is_faster() -> None:
    """Fast nodes: each GPU carries an eighth between 8 nodes while the flat ring's rounding costs 63/64 of it all."""
    cluster = plain(nvlink=1e14, network=25e9)
    between = 2 * 7 / 8 * GIB / 8 / 25e9
    assert all_reduce_seconds(cluster, GIB, 64) == pytest.approx(between, rel=0.01)
    assert between < 0.95 * 2 * 63 / 64 * GIB / (8 * 25e9)


@pytest.mark.parametrize(
    ("ranks", "stride", "expected"),
    [
        *(
            (8, 1, (8, 1)),
            (2, 1, (2, 1)),
            (4, 2, (4, 1)),
            (16, 1, (8, 2)),
            (8, 8, (1, 8)),
            (32, 4, (2, 16)),
            (2, 64, (1, 2)),
            (12, 1, (8, 2)),
        ),
        (3, 1, (2, 2)),  # ranks 6, 7, 8 of nodes of 8
    ],
)
def test_groups_lie_on_nodes(ranks: int, stride: int, expected: tuple[int, int]) -> None:
    assert plain().placement(ranks, stride) == expected


def test_pipeline_neighbours_in_one_node_do_not_use_the_network() -> None:
    cluster = plain()
    assert point_to_point_seconds(cluster, GIB, stride=4, ranks=2) == pytest.approx(GIB / 300e9, rel=0.01)
    assert point_to_point_seconds(cluster, GIB, stride=4, ranks=4) == pytest.approx(GIB / 25e9, rel=0.01)
    shared = plain(network=100e9, per="node")
    assert point_to_point_seconds(shared, GIB, stride=4, ranks=4) == pytest.approx(GIB / 25e9, rel=0.01)
    assert point_to_point_seconds(shared, GIB, stride=16) == pytest.approx(GIB / 12.5e9, rel=0.01)


def test_clusters_take_what_the_catalogue_and_the_vendor_have() -> None:
    cluster = cluster_for("A100 SXM4 80GB", 64)
    assert cluster.intra.bandwidth == 300e9  # the catalogue's 600 GB/s are both directions
    assert cluster.inter == link_named("InfiniBand HDR")
    assert cluster.assumptions == ("nodes have 8 GPUs", "nodes are linked by InfiniBand HDR, 200 Gb/s per GPU")
    assert sorted(cluster.measured) == list(range(2, 9))
    alone = cluster_for("H100 SXM5", 4)
    assert (alone.gpus_per_node, alone.inter, alone.assumptions) == (4, None, ())
    assert cluster_for("T4", 16).inter == link_named("Ethernet 100G")
    assert cluster_for("L4", 8).intra == link_named("PCIe 4 x16")
    board = cluster_for("H100 PCIe", 8)
    assert board.intra == link_named("PCIe 5 x16")
    assert board.assumptions == ("8 H100 PCIe per node are linked by PCIe 5 x16: bridges join 2 of them",)
    assert cluster_for("H100 PCIe", 2).intra.bandwidth == 300e9
    assert cluster_for("H100 NVL", 4).intra == link_named("PCIe 5 x16")
    assert (cluster_for("H200 NVL", 4).intra.bandwidth, cluster_for("GB300", 4).intra.bandwidth) == (450e9, 900e9)
    given_links = cluster_for(A100, 32, gpus_per_node=4, intra="pcie-4 X16", inter="4x InfiniBand HDR")
    assert given_links.assumptions == ()
    assert not given_links.measured
    assert (given_links.inter.bandwidth, given_links.inter.per) == (100e9, "node")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("A100 SXM4 80GB", 12), "12 GPUs do not fill nodes of 8"),
        (("Z9000", 8), "unknown GPU 'Z9000'"),
        (("A100 SXM4 80GB", 16, 8, None, "infiniband ndx"), "unknown link 'infiniband ndx'; did you mean InfiniBand NDR"),
    ],
)
def test_clusters_that_cannot_be_are_one_sentence(arguments: tuple, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cluster_for(*arguments)


OWN = '[[link]]\nname = "Ours"\nbandwidth = 5e9\nlatency = 2e-5\nper = "node"\n'


def test_links_of_ones_own_are_added_and_replace_ours(tmp_path: Path) -> None:
    path = tmp_path / "links.toml"
    path.write_text(OWN + OWN.replace("Ours", "NVLink 3"))
    links = load_links(path)
    assert link_named("ours", links).bandwidth == 5e9
    assert link_named("NVLink 3", links).per == "node"
    assert len(links) == len(load_links()) + 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[link", "is not TOML"),
        ("a = 1", "holds no .*link.* table"),
        (OWN.replace("5e9", "-1"), "bandwidth is -1; give a number above 0"),
        (OWN.replace("5e9", '"fast"'), "bandwidth is 'fast'; give a number"),
        (OWN + "speed = 3\n", "of link 'Ours' speed is 3"),
        (OWN.replace('"node"', '"rack"'), "per is 'rack'"),
        (OWN.replace("latency = 2e-5\n", ""), "latency is missing"),
    ],
)
def test_a_link_file_that_is_wrong_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "links.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        load_links(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot read the link file"):
        load_links(tmp_path / "absent.toml")


def line(gpus: int, latency: float, bandwidth: float) -> AllReduceTable:
    nbytes = np.logspace(12, 30, 40, base=2)
    return AllReduceTable(nbytes, latency + 2 * (gpus - 1) / gpus * nbytes / bandwidth)


def test_measured_times_take_the_place_of_the_formulas_within_a_node() -> None:
    cluster = dataclasses.replace(plain(), measured={8: line(8, 1e-3, 1e9)})
    assert all_reduce_seconds(cluster, GIB, 8) == pytest.approx(1e-3 + 2 * 7 / 8 * GIB / 1e9)
    assert all_gather_seconds(cluster, GIB, 8) == pytest.approx(0.5e-3 + 7 / 8 * GIB / 1e9)
    assert all_reduce_seconds(cluster, GIB, 4) == all_reduce_seconds(plain(), GIB, 4)


def test_the_shipped_fits_are_those_of_the_public_measurements(shared_data: Path) -> None:
    path = shared_data / "distributed" / "nccl_all_reduce.csv.gz"
    for name, gpu in [("a100", "A100 SXM4 80GB"), ("v100", "V100 SXM2 16GB")]:
        tables, shipped = read_all_reduces(path, name), fitted_all_reduces(gpu)
        assert sorted(shipped) == sorted(tables)
        for gpus, table in tables.items():
            fit = fit_all_reduce(table, gpus)
            assert shipped[gpus].latency == pytest.approx(fit.latency, rel=1e-3)
            assert shipped[gpus].bandwidth == pytest.approx(fit.bandwidth, rel=1e-3)
            within = np.abs(shipped[gpus].seconds(table.nbytes) / table.measured - 1)
            assert np.median(within) < 0.08
