"""How many GPUs a machine should have, by its PCI bus."""

from collections.abc import Callable
from pathlib import Path

import pytest

from epochcast.agent.pci import count_gpus, driver_is_due

Machine = Callable[..., Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make a root with these devices on the bus: (vendor, class, driver)."""
    monkeypatch.delenv("container", raising=False)

    def make(*devices: tuple[str, str, str]) -> Path:
        for number, (vendor, kind, driver) in enumerate(devices):
            device = tmp_path / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
            device.mkdir(parents=True)
            (device / "vendor").write_text(f"{vendor}\n")
            (device / "class").write_text(f"{kind}\n")
            if driver:
                (tmp_path / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
                (device / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers" / driver)
        return tmp_path

    return make


NVSWITCH, NETWORK = ("0x10de", "0x068000", "nvidia-nvswitch"), ("0x15b3", "0x020700", "mlx5_core")


@pytest.mark.parametrize(
    ("devices", "count"),
    [
        ([("0x10de", "0x030200", "nvidia")] * 8 + [NVSWITCH, NETWORK], 8),
        ([("0x10de", "0x030200", ""), ("0x10de", "0x030000", "nvidia")], 2),  # one that no driver has taken
        ([("0x10de", "0x030200", "vfio-pci"), ("0x10de", "0x030000", "nouveau")], 0),  # given to a virtual machine; a desktop
        ([("0x1002", "0x030000", "amdgpu"), NETWORK, NVSWITCH], None),
        ([("0x1414", "0x030200", "dxgkrnl")], None),  # WSL: the GPU is Windows'
        ([], None),
    ],
)
def test_gpus_that_are_ours_are_counted(machine: Machine, devices: list[tuple[str, str, str]], count: int | None) -> None:
    root = machine(*devices)
    assert count_gpus(root) == count
    assert driver_is_due(root) is bool(count)


def test_virtual_functions_of_a_host_are_no_gpus_of_its_own(machine: Machine) -> None:
    root = machine(("0x10de", "0x030200", "nvidia"), ("0x10de", "0x030200", ""))
    (root / "sys/bus/pci/devices/0000:01:00.0/physfn").symlink_to("../0000:00:00.0")
    assert count_gpus(root) == 1


@pytest.mark.parametrize("sign", [".dockerenv", "run/.containerenv", "run/systemd/container"])
def test_in_a_container_nobody_knows(machine: Machine, sign: str) -> None:
    root = machine(("0x10de", "0x030200", "nvidia"))
    (root / sign).parent.mkdir(parents=True, exist_ok=True)
    (root / sign).touch()
    assert count_gpus(root) is None
    assert not driver_is_due(root)
    (root / "dev").mkdir()
    (root / "dev/nvidia0").touch()
    assert driver_is_due(root)
