"""Links, clusters and collectives: units, limits, placement, measured times."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.distributed.communication import (
    AllReduceTable,
    Cluster,
    Link,
    all_gather_seconds,
    all_reduce_seconds,
    cluster_for,
    fit_all_reduce,
    fitted_all_reduces,
    link_named,
    load_links,
    point_to_point_seconds,
    read_all_reduces,
    reduce_scatter_seconds,
)
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

GIB = 2**30
A100 = load_catalog().resolve("A100 SXM4 80GB")
COLLECTIVES = [all_reduce_seconds, all_gather_seconds, reduce_scatter_seconds, point_to_point_seconds]


def plain(nvlink: float = 300e9, network: float = 25e9, per: str = "gpu") -> Cluster:
    """Nodes of 8 without latency, efficiency or measured times: bytes over bytes/s."""
    intra = Link(name="in", kind="nvlink", bandwidth=nvlink, latency=0.0)
    inter = Link(name="between", kind="infiniband", bandwidth=network, latency=0.0, per=per)
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


def test_two_tensor_ranks_leave_each_of_two_rings_half_of_the_node() -> None:
    """Data ranks 2 apart over 4 nodes of 8: the ring has four members per node and the network of four GPUs."""
    cluster = plain(nvlink=60e9, network=100e9, per="node")
    assert cluster.placement(16, 2) == (4, 4)
    assert all_reduce_seconds(cluster, GIB, 16, 2) == pytest.approx(2 * 15 / 16 * GIB / 50e9, rel=0.01)


def test_the_hierarchical_way_is_taken_where_it_is_faster() -> None:
    """Fast nodes: each GPU carries an eighth between 8 nodes while the flat ring's rounding costs 63/64 of it all."""
    cluster = plain(nvlink=1e14, network=25e9)
    between = 2 * 7 / 8 * GIB / 8 / 25e9
    assert all_reduce_seconds(cluster, GIB, 64) == pytest.approx(between, rel=0.01)
    assert between < 0.95 * 2 * 63 / 64 * GIB / (8 * 25e9)


def test_small_buffers_between_many_nodes_go_by_tree() -> None:
    network = Link(name="between", kind="ethernet", bandwidth=1e10, latency=1e-4)
    cluster = dataclasses.replace(plain(), inter=network)
    assert all_reduce_seconds(cluster, 8, 64, 8) == pytest.approx(2 * 6 * 1e-4, rel=0.1)  # 2 log2(64) hops, not 2 x 63


def test_a_ring_through_nodes_goes_at_its_slowest_link_and_waits_for_each() -> None:
    """16 ranks in 2 nodes: of 15 steps one crosses; both media have 1e9 bytes/s, so that the flat ring is the fastest."""
    cluster = plain(nvlink=1e9, network=1e9 / 8)
    slow = {which: getattr(cluster, which).model_copy(update={"latency": 0.005}) for which in ("intra", "inter")}
    late = dataclasses.replace(cluster, intra=slow["intra"], inter=slow["inter"].model_copy(update={"latency": 0.1}))
    assert all_gather_seconds(late, 1e9, 16) == pytest.approx(15 / 16 + 14 * 0.005 + 0.1, rel=1e-4)
    assert all_reduce_seconds(late, 1e9, 16) == pytest.approx(2 * (15 / 16 + 14 * 0.005 + 0.1), rel=1e-4)
    assert all_gather_seconds(plain(nvlink=40e9), GIB, 16, 2) == pytest.approx(15 / 16 * GIB / 40e9, rel=0.01)


def test_efficiencies_lower_line_rates_and_not_what_was_measured() -> None:
    rated = dataclasses.replace(plain(), intra_efficiency=0.5, inter_efficiency=0.25)
    assert all_reduce_seconds(rated, GIB, 8) == pytest.approx(2 * all_reduce_seconds(plain(), GIB, 8), rel=0.01)
    assert all_reduce_seconds(rated, GIB, 8, 8) == pytest.approx(4 * all_reduce_seconds(plain(), GIB, 8, 8), rel=0.01)
    links = {which: getattr(rated, which).model_copy(update={"measured": True}) for which in ("intra", "inter")}
    reached = dataclasses.replace(rated, **links)
    for stride in (1, 8):
        assert all_reduce_seconds(reached, GIB, 8, stride) == all_reduce_seconds(plain(), GIB, 8, stride)


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


def test_groups_lie_on_nodes_as_the_slowest_of_all_ranks_does() -> None:
    """Against every group written out: none has fewer members in its fullest node, or more nodes, unless sizes are odd."""
    cluster = plain()
    for stride in (1, 2, 4, 8, 16):
        for ranks in (2, 4, 8, 16):
            groups = [[offset + stride * rank for rank in range(ranks)] for offset in range(stride)]
            nodes = {len({rank // 8 for rank in group}) for group in groups}
            assert nodes == {cluster.placement(ranks, stride).nodes}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nothing_to_do_takes_no_time(collective) -> None:
    cluster = cluster_for("A100 SXM4 80GB", 64)
    assert collective(cluster, 0, ranks=8, stride=8) == 0.0
    assert collective(cluster, GIB, ranks=1, stride=8) == 0.0


@pytest.mark.parametrize("collective", COLLECTIVES)
@settings(max_examples=40)
@given(
    nbytes=st.floats(1, 1e11),
    more=st.floats(1, 10),
    ranks=st.sampled_from([2, 3, 4, 8, 16, 64]),
    stride=st.sampled_from([1, 2, 4, 8, 32]),
    per=st.sampled_from(["gpu", "node"]),
)
def test_more_bytes_and_slower_links_are_never_faster(
    collective, nbytes: float, more: float, ranks: int, stride: int, per: str
) -> None:
    cluster = plain(per=per)
    for which in ("intra", "inter"):
        with_latency = getattr(cluster, which).model_copy(update={"latency": 1e-5})
        cluster = dataclasses.replace(cluster, **{which: with_latency})
    seconds = collective(cluster, nbytes, ranks=ranks, stride=stride)
    assert seconds > 0
    assert collective(cluster, more * nbytes, ranks=ranks, stride=stride) >= seconds
    for which in ("intra", "inter"):
        link = getattr(cluster, which)
        for worse in ({"bandwidth": link.bandwidth / more}, {"latency": link.latency * more}):
            slower = dataclasses.replace(cluster, **{which: link.model_copy(update=worse)})
            assert collective(slower, nbytes, ranks=ranks, stride=stride) >= seconds * (1 - 1e-12)


def test_pipeline_neighbours_in_one_node_do_not_use_the_network() -> None:
    cluster = plain()
    assert point_to_point_seconds(cluster, GIB, stride=4, ranks=2) == pytest.approx(GIB / 300e9, rel=0.01)
    assert point_to_point_seconds(cluster, GIB, stride=4, ranks=4) == pytest.approx(GIB / 25e9, rel=0.01)
    shared = plain(network=100e9, per="node")
    assert point_to_point_seconds(shared, GIB, stride=4, ranks=4) == pytest.approx(GIB / 25e9, rel=0.01)
    assert point_to_point_seconds(shared, GIB, stride=16) == pytest.approx(GIB / 12.5e9, rel=0.01)


def test_without_a_network_a_job_of_several_nodes_is_refused() -> None:
    cluster = dataclasses.replace(plain(), inter=None)
    with pytest.raises(InputError, match="spans several nodes of 8 GPUs but has no link between nodes"):
        all_reduce_seconds(cluster, GIB, 16)


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
        (("A100 SXM4 80GB", 0), "0 GPUs"),
        (("A100 SXM4 80GB", 8, 0), "0 GPUs per node"),
        (("Z9000", 8), "unknown GPU 'Z9000'"),
        (("A100 SXM4 80GB", 16, 8, None, "infiniband ndx"), "unknown link 'infiniband ndx'; did you mean InfiniBand NDR"),
    ],
)
def test_clusters_that_cannot_be_are_one_sentence(arguments: tuple, says: str) -> None:
    with pytest.raises(InputError, match=says):
        cluster_for(*arguments)


def test_every_preset_says_where_it_is_from_and_is_found_by_its_name() -> None:
    links = load_links()
    for name, link in links.items():
        assert link.source, name
        assert 1e-7 <= link.latency <= 1e-3, name
        assert 1e9 <= link.bandwidth <= 1e12, name
        assert link_named(name.upper().replace(" ", "-")) == link


OWN = '[[link]]\nname = "Ours"\nkind = "ethernet"\nbandwidth = 5e9\nlatency = 2e-5\nper = "node"\n'


def test_links_of_ones_own_are_added_and_replace_ours(tmp_path: Path) -> None:
    path = tmp_path / "links.toml"
    path.write_text(OWN + OWN.replace("Ours", "NVLink 3"))
    links = load_links(path)
    assert link_named("ours", links).bandwidth == 5e9
    assert link_named("NVLink 3", links).kind == "ethernet"
    assert len(links) == len(load_links()) + 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[link", "is not TOML"),
        ("a = 1", "holds no .*link.* table"),
        (OWN.replace("5e9", "-1"), "link 'Ours' has bandwidth = -1"),
        (OWN.replace("5e9", '"fast"'), "link 'Ours' has bandwidth = 'fast'"),
        (OWN + "speed = 3\n", "link 'Ours' has speed = 3"),
        (OWN.replace('"ethernet"', '"tin cans"'), "has kind = 'tin cans'"),
        (OWN.replace("latency = 2e-5\n", ""), "link 'Ours' lacks latency;"),
        (OWN + OWN, "holds link 'Ours' twice"),
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


def test_the_fit_finds_latency_and_bandwidth_again() -> None:
    fit = fit_all_reduce(line(8, 5e-5, 2.2e11), 8)
    assert fit.latency == pytest.approx(5e-5)
    assert fit.bandwidth == pytest.approx(2.2e11)
    noise = np.random.default_rng(0).normal(1, 0.05, 40)
    table = line(4, 3e-5, 1e11)
    noisy = fit_all_reduce(AllReduceTable(table.nbytes, table.measured * noise), 4)
    assert noisy.latency == pytest.approx(3e-5, rel=0.05)
    assert noisy.bandwidth == pytest.approx(1e11, rel=0.05)


def test_a_table_goes_through_its_points_and_on_with_the_last_bandwidth() -> None:
    table = line(8, 5e-5, 2.2e11)
    assert table.seconds(table.nbytes) == pytest.approx(table.measured)
    assert table.seconds(4 * table.nbytes[-1]) == pytest.approx(4 * table.measured[-1])
    assert table.seconds(0) == pytest.approx(5e-5)  # what is left of the line without bytes
    between = np.sqrt(table.nbytes[3] * table.nbytes[4])
    assert table.measured[3] < table.seconds(between) < table.measured[4]


def test_measured_times_take_the_place_of_the_formulas_within_a_node() -> None:
    cluster = dataclasses.replace(plain(), measured={8: line(8, 1e-3, 1e9)})
    assert all_reduce_seconds(cluster, GIB, 8) == pytest.approx(1e-3 + 2 * 7 / 8 * GIB / 1e9)
    assert all_gather_seconds(cluster, GIB, 8) == pytest.approx(0.5e-3 + 7 / 8 * GIB / 1e9)
    assert all_reduce_seconds(cluster, GIB, 4) == all_reduce_seconds(plain(), GIB, 4)


ROWS = "bytes,gpu,gpus,time_ns\n1048576,x,2,50000\n2097152,x,2,60000\n1048576,x,4,70000\n1048576,x,2,54000\n"


def test_a_table_is_read_by_number_of_gpus(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text(ROWS)
    tables = read_all_reduces(path)
    assert sorted(tables) == [2, 4]
    assert tables[2].nbytes.tolist() == [1048576, 2097152]
    assert tables[2].measured == pytest.approx([52e-6, 60e-6])  # the median of the size measured twice


@pytest.mark.parametrize(
    ("text", "gpu", "says"),
    [
        (ROWS.replace("time_ns", "time"), None, "lacks the column 'time_ns'"),
        (ROWS.replace("60000", "0"), None, "line 3 has a figure that is not above 0"),
        (ROWS.replace("60000", "fast"), None, "line 3 has a figure"),
        (ROWS + "1048576,y,2,9\n", None, "holds all-reduces of x, y; name the GPU"),
        (ROWS, "z", "holds no all-reduces of 'z'; it has x"),
        ("", None, "cannot read the all-reduces"),
    ],
)
def test_a_table_that_is_wrong_is_one_sentence(tmp_path: Path, text: str, gpu: str | None, says: str) -> None:
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_all_reduces(path, gpu)


def test_too_few_or_falling_times_are_no_fit() -> None:
    with pytest.raises(InputError, match="2 sizes"):
        fit_all_reduce(AllReduceTable(np.array([1e6, 2e6]), np.array([1e-5, 2e-5])), 2)
    with pytest.raises(InputError, match="bandwidth is unknown"):
        fit_all_reduce(AllReduceTable(np.array([1e6, 2e6, 4e6]), np.array([3e-5, 2e-5, 1e-5])), 2)


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


def test_gpus_without_measurements_have_none() -> None:
    assert fitted_all_reduces("T4") == {}
    assert all(gpu in load_catalog() for gpu in ("A100 SXM4 40GB", "V100 SXM2 32GB") if fitted_all_reduces(gpu))
