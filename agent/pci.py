"""How many GPUs the machine has, whether or not the driver sees them: NVIDIA's display devices on the PCI bus."""

import os
from pathlib import Path

VENDOR = "0x10de"
# Class codes of the PCI specification: VGA and 3D controllers. NVSwitches are bridges (0680).
CLASSES = ("0x0300", "0x0302")
# What shows that this is a container (Docker, Podman, systemd's and Kubernetes' own): it sees the host's bus, not its GPUs.
CONTAINER = (".dockerenv", "run/.containerenv", "run/systemd/container", "var/run/secrets/kubernetes.io")


def count_gpus(root: Path = Path("/")) -> int | None:
    """Return the number of GPUs that NVIDIA's driver should show; None where that cannot be known.

    A GPU that is bound to another driver (``vfio-pci``, ``nouveau``) is not ours, nor are the virtual functions that a host
    makes of one.
    """
    if "container" in os.environ or any((root / sign).exists() for sign in CONTAINER):
        return None
    nvidia = [device for device in (root / "sys/bus/pci/devices").glob("*") if _text(device / "vendor") == VENDOR]
    gpus = [device for device in nvidia if _text(device / "class").startswith(CLASSES)]
    # A GPU that no driver has taken has no such link.
    ours = [gpu for gpu in gpus if (gpu / "driver").resolve().name in ("nvidia", "driver") and not (gpu / "physfn").exists()]
    return len(ours) if gpus else None


def driver_is_due(root: Path = Path("/")) -> bool:
    """Whether NVIDIA's driver should work here: the bus shows a GPU, or its devices are there."""
    return bool(count_gpus(root)) or any((root / "dev").glob("nvidia[0-9]*"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
