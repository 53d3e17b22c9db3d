import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.sources import Attribute, Device
from epochcast.agent.static import complete, merge, read_cuda
from epochcast.architectures import architectures, figures_of
from epochcast.regressor import load_catalog

STUB = Path(__file__).with_name("cuda_stub.c")
H200, T4 = (f"GPU-00000000-0000-0000-0000-00000000000{n}" for n in (0, 1))

# The black-box paper's static list (section III-A.2) → what it is called here. MEM_SIZE, the nominal size, is the catalogue's.
# What NVML reads of an H200.
NVML = {
    "memory_total": 150754820096,
    "bar1_total": 274877906944,
    "max_sm_clock": 1.98e9,
    "max_memory_clock": 3.201e9,
    "memory_bus_width": 6144,
    "cuda_cores": 16896,
    "compute_capability": "9.0",
    "power_limit": 700.0,
    "shutdown_temperature": 92.0,
    "pcie_link_width": 16,
}


@pytest.fixture(scope="session")
def cuda_library(compiled: Callable[..., Path]) -> Path:
    """A stub ``libcuda.so.1``, compiled once."""
    return compiled("libcuda.so.1", STUB, "-D_GNU_SOURCE")


@pytest.fixture
def driver(cuda_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stub driver that `read_cuda` finds; a file in it changes the driver's mood."""
    folder = tmp_path / "driver"
    folder.mkdir()
    shutil.copy(cuda_library, folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return folder


@pytest.fixture
def why_nothing(caplog: pytest.LogCaptureFixture) -> Callable[..., str]:
    """Read nothing of CUDA, and return what the log says of it."""

    def ask(**settings: float) -> str:
        with caplog.at_level("INFO"):
            assert read_cuda(**settings) == {}
        return caplog.messages[-1]

    return ask


def device(
    static: Mapping[str, float | int | str], uuid: str = H200, index: int = 0, instance: int | None = None, source: str = "nvml"
) -> Device:
    metrics = tuple(catalog().values())
    attributes = {name: Attribute(value, source) for name, value in static.items()}
    return Device(index, uuid, "NVIDIA H200", source, metrics, instance, attributes)


def test_cuda_is_asked_without_what_hides_gpus_from_it(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []
    true = subprocess.Popen

    def spy(*arguments: object, env: dict[str, str], **more: object) -> object:
        seen.append(env)
        return true(*arguments, env=env, **more)  # type: ignore[call-overload]

    monkeypatch.setattr("epochcast.agent.static.subprocess.Popen", spy)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("SECRET", "not for a child")
    assert set(read_cuda()) == {H200, T4}
    assert seen[0]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert not {"CUDA_VISIBLE_DEVICES", "SECRET"} & set(seen[0])


def test_a_foreign_package_of_our_name_where_the_agent_starts_is_not_run(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "epochcast").mkdir()
    (tmp_path / "epochcast" / "__init__.py").write_text("raise RuntimeError('the foreign package was imported')\n")
    monkeypatch.chdir(tmp_path)
    assert read_cuda()


def test_a_driver_that_hangs_costs_the_timeout_and_no_more(driver: Path, why_nothing: Callable[..., str]) -> None:
    (driver / "hang").touch()
    assert "1.5 s" in why_nothing(timeout=1.5)  # would not come back if the child were waited for


def test_a_driver_that_finds_no_gpu_says_so(driver: Path, why_nothing: Callable[..., str]) -> None:
    (driver / "no-device").touch()
    assert "CUDA error 100 (no CUDA-capable device is detected)" in why_nothing()


def test_a_lost_gpu_does_not_cost_the_others(driver: Path, caplog: pytest.LogCaptureFixture) -> None:
    (driver / "lost-0").touch()
    assert set(read_cuda()) == {T4}
    assert "CUDA device 0 is skipped: cuDeviceGet failed with CUDA error 999" in caplog.text


def test_no_cuda_driver_is_one_sentence(tmp_path: Path) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has an NVIDIA driver")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-m", "epochcast.agent.cuda_attributes"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "libcuda.so.1" in done.stderr


def test_a_driver_without_the_functions_is_refused(
    driver: Path, tmp_path: Path, compiled: Callable[..., Path], why_nothing: Callable[..., str]
) -> None:
    (tmp_path / "empty.c").write_text("int nothing;\n")
    compiled("libcuda.so.1", tmp_path / "empty.c").replace(driver / "libcuda.so.1")
    assert "has no cuInit" in why_nothing()


def test_a_process_that_cannot_start_or_answers_nonsense(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why_nothing: Callable[..., str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    assert "cannot be started" in why_nothing()
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("#!/bin/sh\necho 'not { json'\n")
    nonsense.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(nonsense))
    assert "no JSON" in why_nothing()
    nonsense.write_text("#!/bin/sh\nexit 7\n")
    assert "status 7" in why_nothing()


def test_what_is_read_wins_over_what_is_looked_up() -> None:
    cuda = {H200: {"pci_bus_id": "0000:10:00.0", "sm_count": 114, "max_resident_grids": 64, "power_limit": 1.0}}
    facts = merge([device(NVML)], cuda)[H200]
    assert facts["sm_count"] == Attribute(114, "cuda")
    assert facts["max_resident_grids"] == Attribute(64, "cuda")
    assert facts["power_limit"] == Attribute(700.0, "nvml")
    assert facts["tensor_cores"] == Attribute(4 * 114, "table")


def test_cuda_device_is_found_by_pci_address_when_uuids_differ(driver: Path) -> None:
    odd = device({**NVML, "pci_bus_id": "00000000:10:00.0"}, uuid="GPU-stub-0")
    facts = merge([odd], read_cuda())["GPU-stub-0"]
    assert facts["sm_count"] == Attribute(132, "cuda")
    unplaced = merge([device(NVML, uuid="GPU-stub-0")], read_cuda())["GPU-stub-0"]
    assert unplaced["sm_count"].source == "table"


def test_of_a_partitioned_gpu_cuda_shows_an_instance_and_not_the_whole(driver: Path) -> None:
    (driver / "mig").touch()
    whole = device({**NVML, "pci_bus_id": "00000000:10:00.0"})
    shown = device({}, uuid="MIG-aa000000-0000-0000-0000-000000000000", instance=1)
    other = device({}, uuid="MIG-bb000000-0000-0000-0000-000000000000", instance=2)
    facts = merge([whole, shown, other], read_cuda())
    assert facts[whole.uuid]["sm_count"] == Attribute(132, "table")
    assert facts[shown.uuid]["sm_count"] == Attribute(16, "cuda")
    assert facts[shown.uuid]["cuda_cores"] == Attribute(16 * 128, "table")
    assert facts[shown.uuid]["fp32_flops"].value == 2 * 16 * 128 * 1.98e9
    assert "memory_bandwidth" not in facts[other.uuid], "nobody tells an instance's share"
    assert facts[other.uuid]["max_threads_per_sm"] == Attribute(2048, "table")
    assert "sm_count" not in facts[other.uuid], "how many SMs a slice has does not follow from its GPU"


def test_a_host_and_an_unknown_capability_keep_what_they_have() -> None:
    host = device({"cpus": 2}, uuid="host-a", source="host")
    future = device({**NVML, "compute_capability": "99.0"}, uuid="GPU-f", index=1)
    facts = merge([host, future], {})
    assert facts["host-a"] == {"cpus": Attribute(2, "host")}
    assert "sm_count" not in facts["GPU-f"]
    assert facts["GPU-f"]["fp32_flops"].value == 2 * 16896 * 1.98e9


def test_nothing_is_started_for_a_host_or_a_replay(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochcast.agent.static.subprocess.Popen", None)
    facts = complete([device(NVML, source="replay"), device({"cpus": 2}, uuid="host-a", source="host")])
    assert facts[H200]["sm_count"].source == "table"


def test_a_replayed_attribute_that_is_text_is_not_computed_with() -> None:
    facts = merge([device({"cuda_cores": "many", "boost_clock": 1e9, "compute_capability": 9.0}, source="trace")], {})[H200]
    assert "fp32_flops" not in facts
    assert facts["cuda_cores"].value == "many"


# Rates that a board has less of than its architecture, for export's sake.
CUT_DOWN = {("H20 SXM", "fp64")}


def test_the_table_agrees_with_what_the_gpu_catalogue_counts_by_board() -> None:
    for gpu in (one for one in load_catalog().values() if one.vendor == "NVIDIA"):
        facts = figures_of(str(gpu.compute_capability))
        assert facts["cuda_cores_per_sm"] * gpu.sm_count == gpu.cuda_cores, gpu.name
        for ratio, over, under in (("fp32_to_fp64_ratio", "fp32", "fp64"), ("fp16_to_fp32_ratio", "fp16", "fp32")):
            above, below = (getattr(gpu, f"{kind}_flops") for kind in (over, under))
            if above is not None and below is not None and (gpu.name, under) not in CUT_DOWN:
                assert above / below == pytest.approx(facts[ratio], rel=0.02), f"{gpu.name}: {ratio}"


def test_every_capability_has_the_limits_that_occupancy_needs() -> None:
    for capability, facts in architectures().items():
        lacking = {"max_threads_per_sm", "max_blocks_per_sm", "shared_memory_per_sm", "shared_memory_per_block"} - set(facts)
        assert not lacking, f"{capability} lacks {lacking}"
        assert facts["shared_memory_per_block"] <= facts["shared_memory_per_sm"]
        if float(capability) >= 7 and "l1_cache_per_sm" in facts:
            assert facts["shared_memory_per_sm"] < facts["l1_cache_per_sm"]
        assert set(facts.get("unverified", ())) <= set(facts), capability
