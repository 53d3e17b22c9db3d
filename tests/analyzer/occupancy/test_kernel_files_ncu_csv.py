"""CSV files of Nsight Compute in their forms, units and surroundings: all say the same of the same launches."""

import math
from pathlib import Path

import pytest

from epochcast.analyzer.backends.occupancy.kernel_files import KernelFile, read_any
from epochcast.analyzer.backends.occupancy.kernel_files.kernel_file import occupancy_rows
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_by_capability
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

KEYS = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
PLACE = ["Block Size", "Grid Size", "Device", "CC"]
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
DURATION = "gpu__time_duration.sum"
REGISTERS = "launch__registers_per_thread"
STATIC, DYNAMIC = "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"
SMS = "device__attribute_multiprocessor_count"

# Two launches on an A100: a GEMM with large shared memory, and a kernel with small static shared memory.
LAUNCHES = [
    (["0", "42", "python3.12", "127.0.0.1", "gemm<A, B>", "1", "7", "(128, 1, 1)", "(64, 1, 3)", "0", "8.0"]),
    (["1", "42", "python3.12", "127.0.0.1", 'add("x", {lambda()#1})', "1", "7", "(256, 1, 1)", "(1024, 1, 1)", "0", "8.0"]),
]
BASE = {
    ACHIEVED: ("%", ["6.21", "81.50"]),
    THEORETICAL: ("%", ["6.25", "100"]),
    DURATION: ("ns", ["1,234,567", "3,008"]),
    REGISTERS: ("register/thread", ["96", "32"]),
    STATIC: ("byte/block", ["0", "1,024"]),
    DYNAMIC: ("byte/block", ["98,304", "0"]),
    SMS: ("", ["108", "108"]),
}
SCALED = {
    **BASE,
    DURATION: ("us", ["1,234.57", "3.01"]),
    STATIC: ("Kbyte/block", ["0", "1.02"]),
    DYNAMIC: ("Kbyte/block", ["98.30", "0"]),
}
OLD_UNITS = {**BASE, DURATION: ("msecond", ["1.234567", "0.003008"])}
LABELS = {
    ACHIEVED: "Achieved Occupancy",
    THEORETICAL: "Theoretical Occupancy",
    DURATION: "Duration",
    REGISTERS: "Registers Per Thread",
    STATIC: "Static Shared Memory Per Block",
    DYNAMIC: "Dynamic Shared Memory Per Block",
    SMS: "# SMs",
}

Metrics = dict[str, tuple[str, list[str]]]


def _line(cells: list[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def raw(metrics: Metrics) -> str:
    """The page raw: a row per launch below a row of units."""
    lines = [_line([*KEYS, *PLACE, *metrics]), _line([""] * 11 + [unit for unit, _ in metrics.values()])]
    lines += [_line([*one, *(values[row] for _, values in metrics.values())]) for row, one in enumerate(LAUNCHES)]
    return "\n".join(lines) + "\n"


def details(metrics: Metrics, labels: dict[str, str] | None = None) -> str:
    """The page details: a row per metric, and rows of rules without a metric."""
    rest = ["Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description"]
    lines = [_line([*KEYS, *PLACE, *rest])]
    for row, one in enumerate(LAUNCHES):
        for metric, (unit, values) in metrics.items():
            name = labels[metric] if labels else metric
            lines.append(_line([*one, "Occupancy", name, unit, values[row], "", "", ""]))
            lines.append(_line([*one, "Memory Workload Analysis", "L2 Hit Rate", "%", "n/a", "", "", ""]))
        lines.append(_line([*one, "Occupancy", "", "", "", "Occupancy", "OPT", "Limited by shared memory, see the guide."]))
    return "\n".join(lines) + "\n"


def _read(folder: Path, text: str) -> KernelFile:
    (folder / "ncu.csv").write_text(text)
    return read_any(folder / "ncu.csv")


NOISE = '==PROF== Connected to process 42 (/usr/bin/python3.12)\nepoch 1, loss 0.5\n==PROF== Profiling "gemm" - 0: 0%....100%\n'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(raw(BASE), id="raw"),
        pytest.param(raw(OLD_UNITS), id="raw-older-units"),
        pytest.param(details(BASE), id="details-of-named-metrics"),
        pytest.param(details(BASE, LABELS), id="details-of-sections"),
        pytest.param(NOISE + raw(BASE) + "==PROF== Disconnected from process 42\n", id="raw-with-output"),
        pytest.param(NOISE + details(BASE, LABELS).replace("\n", "\nstep 3, 0.1 s\n"), id="details-between-output"),
        pytest.param("\ufeff" + raw(BASE).replace("\n", "\r\n"), id="raw-from-windows"),
    ],
)
def test_every_form_says_the_same(tmp_path: Path, text: str) -> None:
    file = _read(tmp_path, text)
    table = file.table
    assert table["kernel"].tolist() == ["gemm<A, B>", 'add("x", {lambda()#1})']
    assert table[["grid_x", "grid_y", "grid_z"]].to_numpy().tolist() == [[64, 1, 3], [1024, 1, 1]]
    assert table[["block_x", "registers_per_thread", "shared_memory"]].to_numpy().tolist() == [
        [128, 96, 98304],
        [256, 32, 1024],
    ]
    assert table["duration"].tolist() == pytest.approx([1234.567e-6, 3.008e-6])
    assert table["achieved"].tolist() == pytest.approx([0.0621, 0.815])
    assert table["theoretical"].tolist() == pytest.approx([0.0625, 1.0])
    assert file.limits == {"GPU of 108 SMs": limits_by_capability("GPU of 108 SMs", 8.0, 108)}


def test_our_limit_is_ncus_theoretical_occupancy(tmp_path: Path) -> None:
    rows = occupancy_rows(_read(tmp_path, raw(BASE)), "ncu.csv", load_catalog())
    assert rows["limit"].tolist() == pytest.approx(rows["theoretical"].tolist())


def test_scaled_units_are_rounded_and_still_give_the_same_occupancy(tmp_path: Path) -> None:
    file = _read(tmp_path, raw(SCALED))
    assert file.table["shared_memory"].tolist() == pytest.approx([98_300, 1_020])
    rows = occupancy_rows(file, "ncu.csv", load_catalog())
    exact = occupancy_rows(_read(tmp_path, raw(BASE)), "ncu.csv", load_catalog())
    assert rows["grid"].tolist() == exact["grid"].tolist()


def test_the_gpus_attributes_count_where_ncu_read_them(tmp_path: Path) -> None:
    attributes: Metrics = {
        "device__attribute_display_name": ("", ["NVIDIA A100-SXM4-80GB"] * 2),
        "device__attribute_max_warps_per_multiprocessor": ("", ["32", "32"]),
        "device__attribute_max_shared_memory_per_multiprocessor": ("byte", ["102,400", "102,400"]),
    }
    file = _read(tmp_path, raw({**BASE, **attributes}))
    (limits,) = file.limits.values()
    assert (limits.name, limits.max_warps, limits.shared_memory) == ("NVIDIA A100-SXM4-80GB", 32, 102_400)
    assert file.table["gpu"].tolist() == ["NVIDIA A100-SXM4-80GB"] * 2


def test_files_after_each_other_keep_all_launches(tmp_path: Path) -> None:
    """Numbers of launches start again in each."""
    for page in (raw(BASE), details(BASE)):
        file = _read(tmp_path, page + NOISE + page)
        assert file.table["kernel"].tolist() == 2 * ["gemm<A, B>", 'add("x", {lambda()#1})']


def test_the_counter_alone_gives_achieved_occupancy_alone(tmp_path: Path) -> None:
    file = _read(tmp_path, raw({ACHIEVED: BASE[ACHIEVED]}))
    rows = occupancy_rows(file, "ncu.csv", load_catalog(), load_catalog().resolve("A100 SXM4 80GB"))
    assert rows["grid"].isna().all()
    assert rows["achieved"].tolist() == pytest.approx([0.0621, 0.815])
    assert set(rows["skipped"]) == {"no_launch_configuration"}


def test_without_the_sms_the_gpu_has_to_be_named(tmp_path: Path) -> None:
    file = _read(tmp_path, raw({name: one for name, one in BASE.items() if name != SMS}))
    assert file.limits == {}
    with pytest.raises(InputError, match="name it with --gpu"):
        occupancy_rows(file, "ncu.csv", load_catalog())
    rows = occupancy_rows(file, "ncu.csv", load_catalog(), load_catalog().resolve("A100 SXM4 80GB"))
    assert rows["limit"].tolist() == pytest.approx([0.0625, 1.0])


PRODUCTS: Metrics = {"launch__grid_size": ("", ["192", "1,024"]), "launch__block_size": ("", ["128", "256"])}
EACH: Metrics = {
    "launch__grid_dim_x": ("", ["64", "1,024"]),
    "launch__grid_dim_y": ("", ["1", "1"]),
    "launch__grid_dim_z": ("", ["3", "1"]),
    "launch__block_dim_x": ("", ["128", "256"]),
    "launch__block_dim_y": ("", ["1", "1"]),
    "launch__block_dim_z": ("", ["1", "1"]),
}


@pytest.mark.parametrize(("sizes", "grid"), [(PRODUCTS, [192, 1, 1]), (EACH, [64, 1, 3]), ({**EACH, **PRODUCTS}, [64, 1, 3])])
def test_older_files_tell_sizes_as_metrics(tmp_path: Path, sizes: Metrics, grid: list[int]) -> None:
    text = raw({**BASE, **sizes}).replace('"(64, 1, 3)"', '""').replace('"(1024, 1, 1)"', '""')
    text = text.replace('"(128, 1, 1)"', '""').replace('"(256, 1, 1)"', '""')
    table = _read(tmp_path, text).table
    assert table[["grid_x", "grid_y", "grid_z"]].to_numpy().tolist() == [grid, [1024, 1, 1]]
    assert table[["block_x", "block_y", "block_z"]].to_numpy().tolist() == [[128, 1, 1], [256, 1, 1]]


def test_a_figure_that_was_not_read_is_missing(tmp_path: Path) -> None:
    table = _read(tmp_path, raw({**BASE, ACHIEVED: ("%", ["n/a", ""]), DURATION: ("ns", ["nan", "12"])})).table
    assert table["achieved"].isna().all()
    assert math.isnan(table["duration"][0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NOISE + raw(BASE).splitlines()[0] + "\n==ERROR== ERR_NVGPUCTRPERM\n", "holds no profiled launch"),
        (raw({DURATION: BASE[DURATION]}), "neither achieved occupancy nor registers"),
        (raw({**BASE, DURATION: ("fortnight", ["1", "2"])}), "has unit 'fortnight'; print base units"),
        (raw({**BASE, REGISTERS: ("register/thread", ["3,2", "32"])}), "is '3,2', no number; run ncu with LC_ALL=C"),
        ('"ID","Name"\n"0","x"\n', "lacks the column 'Kernel Name'"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        _read(tmp_path, text)
    assert says in str(refused.value) and "ncu.csv" in str(refused.value)
    assert "\n" not in str(refused.value)
