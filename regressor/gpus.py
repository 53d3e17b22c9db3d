"""The GPU catalogue: static attributes of every GPU that a latency can be predicted for (``gpus.toml``)."""

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

from annotated_types import Gt

from epochcast.architectures import architectures, figures_of
from epochcast.regressor.errors import InputError, describe
from epochcast.regressor.gpu_figures import (
    Bandwidth,
    BusWidth,
    Cache,
    Capability,
    Clock,
    Memory,
    Number,
    Pcie,
    Power,
    Rate,
)
from epochcast.regressor.profile import STRICT, Count, Share

# Marketing words that drivers, clouds and people add or leave out ("TeslaT4", "NVIDIA A10G", "GeForce RTX 3090").
_BRANDS = re.compile(r"^(nvidia|tesla|geforce)+")

# "H100:8" (SkyPilot), "8x H100", "H100 x8". "RTX 4090" ends in no count: its x follows a letter.
_COUNT = re.compile(
    r"(?P<before>\d+)\s*[x×*]\s*(?P<a>.+)|(?P<b>.+?)(?:\s*:\s*|(?<=[\s\d])[x×*]\s*)(?P<after>\d+(?:\.\d+)?)", re.I
)

# Instances of AWS, Azure, Google Cloud and Lambda: p4d.24xlarge, Standard_NC4as_T4_v3, a2-highgpu-1g, gpu_8x_h100_sxm5.
_INSTANCE = re.compile(
    r"(?P<family>[a-z]+\d+[a-z]*(?:-\w+)?)\.(?:\d*xlarge|metal.*)|standard_\w+|[a-z]\d[a-z]?-[a-z]+-\d+\w*|gpu_\d+x_\w+", re.I
)

_MEMORY = re.compile(r"(.+?)[\s_-]+(\d{1,4})\s*gi?b", re.I)
_THREADS_PER_WARP = 32

# By choice: of four letters one may be wrong in a name that a misspelt one is taken for; so many of them are said.
_ALIKE, _MOST_ALIKE = 0.7, 3

# What a driver appends to the GPU that a laptop's chip or a virtual GPU is made of: "RTX 4080 Laptop GPU", "GRID A100-10C".
_PART_OF = re.compile(r"(?:nvidia\s+)?(?:grid\s+)?(.+?)(?:\s+(?:laptop|mobile)(?:\s+gpu)?(?:\s+\d+\s*gb)?|-\d+[qcab])", re.I)
_MIG = re.compile(r"\bmig\b|\b\d+g\.\d+gb", re.I)


@dataclass(frozen=True)
class Gpu:
    """Static attributes of one GPU, base units: Hz, bytes, bytes/s, FLOP/s without sparsity, W, bits.

    ``None`` if a figure is unknown or does not apply; ``unverified`` names the figures that no public source
    confirms, or on which sources conflict. Another vendor's ``compute_capability`` is the value that its own software reports.
    A file may leave out what follows from NVIDIA's compute capability: architecture, tensor cores, limits of an SM.

    ``skypilot_name`` and ``google_name`` (an exact spelling) are names that others use; ``usual_for`` are those that
    stand for several GPUs, of which AWS and Google Cloud rent this one. ``nvlink_bridge`` is how many GPUs a bridge joins, 0
    where board or switch join all of a node; missing, it is 0 for an SXM board and else 2. ``power_sampled`` is the share of
    time that the power sensor sees, missing: all of it.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    compute_capability: Annotated[Capability, Gt(0)]
    sm_count: Annotated[Number, Gt(0)]
    cuda_cores: Annotated[Number, Gt(0)]
    boost_clock: Annotated[Clock, Gt(0)]
    memory: Annotated[Memory, Gt(0)]
    memory_bandwidth: Annotated[Bandwidth, Gt(0)]
    tdp: Annotated[Power, Gt(0)]
    vendor: str = "NVIDIA"
    nvml_name: str | None = None
    aliases: tuple[str, ...] = ()
    skypilot_name: str | None = None
    google_name: str | None = None
    usual_for: tuple[str, ...] = ()
    architecture: str | None = None
    memory_type: str | None = None
    tensor_cores: Number | None = None
    base_clock: Clock | None = None
    memory_clock: Clock | None = None
    memory_bus_width: BusWidth | None = None
    l2_cache: Cache | None = None
    l1_cache_per_sm: Cache | None = None
    shared_memory_per_sm: Cache | None = None
    shared_memory_per_block: Cache | None = None
    max_threads_per_sm: Number | None = None
    max_warps_per_sm: Number | None = None
    max_blocks_per_sm: Number | None = None
    max_resident_grids: Number | None = None
    fp64_flops: Rate | None = None
    fp32_flops: Rate | None = None
    fp16_flops: Rate | None = None
    fp16_tensor_flops: Rate | None = None
    bf16_tensor_flops: Rate | None = None
    tf32_tensor_flops: Rate | None = None
    fp64_tensor_flops: Rate | None = None
    fp8_tensor_flops: Rate | None = None
    pcie_gen: Pcie | None = None
    pcie_width: Pcie | None = None
    nvlink_bandwidth: Bandwidth | None = None
    nvlink_bridge: Count | None = None
    copy_engines: Number | None = None
    power_sampled: Share | None = None
    unverified: tuple[str, ...] = field(default=(), compare=False)
    source: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return hash(self.name)  # of forty fields it would take a tenth of a prediction

    @property
    def effective_flops(self) -> float:
        """FP32 FLOP/s without credit for dual issue: a GA10x, AD10x or GB20x SM counts as 64 lanes, as a GA100 SM is.

        With the data sheet's doubled figure an A10G looks four times as fast as it is measured to be against a T4.
        """
        lanes = self.cuda_cores
        if architectures().get(_capability(self.compute_capability), {}).get("dual_issue"):
            lanes = min(lanes, 64 * self.sm_count)
        return 2.0 * lanes * self.boost_clock


# What a user's file need not repeat to replace a GPU of ours: a data sheet has none of it.
_KEPT = ("nvml_name", "aliases", "skypilot_name", "google_name", "usual_for", "nvlink_bridge", "power_sampled")
_FIELDS = [each.name for each in fields(Gpu)]
_REQUIRED = [each.name for each in fields(Gpu) if each.default is MISSING and each.default_factory is MISSING]
_WORDS = ("name", "vendor", "architecture", "memory_type", "unverified", "source")
FIGURES: tuple[str, ...] = tuple(name for name in _FIELDS if name not in (*_WORDS, *_KEPT))
"""Names of the figures of a :class:`Gpu` that recipes may learn from."""


def _key(name: str) -> str:
    """The part of a GPU name that identifies it: lower case, letters and digits, without brand words."""
    return _BRANDS.sub("", re.sub(r"[^a-z0-9]", "", name.lower()))


class Catalog(dict[str, Gpu]):
    """GPUs by catalogue name, in the order of the file; :meth:`resolve` finds one by any of its names."""

    def __init__(self, gpus: list[Gpu]) -> None:
        super().__init__({gpu.name: gpu for gpu in gpus})
        self._by_key: dict[str, Gpu] = {}
        self._of_google = {gpu.google_name: gpu for gpu in gpus if gpu.google_name}
        self._usual = {_key(name): gpu.name for gpu in gpus for name in gpu.usual_for}
        for gpu in self.values():
            for name in (gpu.name, gpu.nvml_name, *gpu.aliases):
                if name is None:
                    continue
                other = self._by_key.setdefault(_key(name), gpu)
                if other is not gpu:
                    raise InputError(f"the name {name!r} means both {other.name!r} and {gpu.name!r}; rename one of them")

    def resolve(self, name: str) -> Gpu:
        """Return the GPU of this name: the catalogue's, NVML's, a cloud's, SkyPilot's, or an alias.

        Case, spaces, dashes and brand words do not count; neither do the count in "T4:1" and the memory in "L4 24GB".
        A beginning that fits several GPUs ("V100") is refused with its candidates, and so is one that fits a single GPU:
        "RTX 6000" is not the "RTX 6000 Ada".

        Raises:
            InputError: the name is unknown or ambiguous, or stands for several GPUs, an instance or a part of a GPU.
        """
        if name in self:
            return self[name]
        alone, count = _without_count(name)
        gpu = self._known(alone) or self._refuse(alone)
        if count != "1":
            raise InputError(
                f"{name!r} includes a number of GPUs; write {alone!r}, and give the number with predict --target-gpus"
            )
        return gpu

    def split_count(self, name: str | None) -> tuple[str | None, int | None]:
        """``T4`` and 4 of "T4 x4"; no number where the name has none."""
        alone, count = (name, "1") if name is None or name in self else _without_count(name)
        return (name, None) if count == "1" else (alone, int(count))

    def usual(self, name: str) -> Gpu | None:
        """The form that clouds usually rent of a name that fits several GPUs, such as the SXM5 of the H100; else None."""
        return self.get(self._usual.get(_key(_without_count(name)[0]), ""))

    def nearest(self, name: str) -> Gpu | None:
        """The GPU that a laptop's, or a virtual GPU, which the catalogue lacks, is named after; None for any other name."""
        part = _PART_OF.fullmatch(name.strip())
        if part is None or self._known(name) is not None:
            return None
        return self._known(part[1]) or self.usual(part[1])

    def _known(self, name: str) -> Gpu | None:
        if of_google := self._of_google.get(name.strip().lower().replace("_", "-")):
            return of_google
        key = _key(name)
        if key in self._by_key:
            return self._by_key[key]
        # A memory that the GPU has says nothing new; another one is another GPU ("RTX 3080 12GB").
        with_memory = _MEMORY.fullmatch(name.strip())
        gpu = self._by_key.get(_key(with_memory[1])) if with_memory else None
        return gpu if gpu and with_memory and gpu.memory == int(with_memory[2]) * 2**30 else None

    def _refuse(self, name: str) -> NoReturn:
        if _MIG.search(name):
            raise InputError(f"{name!r} is a part of a GPU (MIG); predictions are for whole GPUs, so name the whole GPU")
        if instance := _INSTANCE.fullmatch(name.strip()):
            gpu = self._by_key.get(_key(instance["family"] or ""))
            remedy = f"write its GPU, {gpu.name!r}" if gpu else "write the name of its GPU (epochcast prices list shows it)"
            raise InputError(f"{name!r} is an instance; {remedy}, or compare instances with epochcast recommend")
        key = _key(name)
        begins = list(dict.fromkeys(gpu.name for known, gpu in self._by_key.items() if key and known.startswith(key)))
        if len(begins) > 1:
            usual = self._usual.get(key)
            names = sorted(begins, key=lambda full_name: full_name != usual)
            hint = " (AWS and Google Cloud rent the first)" if names[0] == usual else ""
            raise InputError(f"GPU name {name!r} is ambiguous; write {_either(names)}{hint}")
        inside = [gpu.name for known, gpu in self._by_key.items() if len(key) > 3 and key in known]
        alike = {known: SequenceMatcher(None, key[: len(known)], known[: len(key)]).ratio() for known in self._by_key}
        near = sorted((known for known in alike if key and alike[known] >= _ALIKE), key=lambda known: -alike[known])
        close = dict.fromkeys(begins + inside or [self._by_key[known].name for known in near])
        remedy = f"did you mean {_either(list(close)[:_MOST_ALIKE])}?" if close else "epochcast gpus lists the names"
        own = f"your own GPU: --gpus FILE, a TOML file with a table [[gpu]] with {', '.join(_REQUIRED)}"
        raise InputError(f"unknown GPU {name!r}; {remedy} ({own})")


def _without_count(name: str) -> tuple[str, str]:
    """A name and the number of GPUs that it has before or behind: ("H100", "8") of "H100:8", "1" where there is none."""
    match = _COUNT.fullmatch(name.strip())
    return ((match["a"] or match["b"]).strip(), match["before"] or match["after"]) if match else (name, "1")


def _either(names: Iterable[str]) -> str:
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


def build_gpu(table: dict[str, Any], what: str) -> Gpu:
    """The GPU of a [[gpu]] table, with what its architecture decides.

    Args:
        table: fields of a :class:`Gpu`.
        what: the table's name in messages.

    Raises:
        InputError: a field is missing, unknown or impossible.
    """
    from pydantic import ValidationError  # a command that reads no catalogue starts without it

    # TOML's 1.6e10 is a float.
    given = {key: int(value) if isinstance(value, float) and value.is_integer() else value for key, value in table.items()}
    try:
        gpu = _with_architecture(_adapter().validate_json(json.dumps(given, default=str)))
    except ValidationError as error:
        raise InputError(describe(error, what, _FIELDS)) from error
    if not 8 <= gpu.cuda_cores / gpu.sm_count <= 512:  # Tesla (2006) had 8; the two are easily swapped
        lanes = f"cuda_cores is {gpu.cuda_cores} and sm_count {gpu.sm_count}"
        raise InputError(f"{what}: {lanes}; an SM has 8 to 512 cores, correct one of them")
    for name in (gpu.name, *gpu.aliases):
        if not _key(name):
            raise InputError(f"{what}: the name {name!r} has no letter a-z or digit besides the brand; give a name with one")
    return gpu


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Gpu)


def _capability(number: float) -> str:
    return f"{number:.1f}"


def _with_architecture(gpu: Gpu) -> Gpu:
    """The GPU, if it is NVIDIA's, with what its architecture decides and its file leaves out."""
    capability = _capability(gpu.compute_capability)
    table = architectures().get(capability)
    if table is None or gpu.vendor != "NVIDIA":
        return gpu
    figures = figures_of(capability)
    decided: dict[str, Any] = {**figures, "architecture": table.get("name")}
    if "tensor_cores_per_sm" in figures:
        decided["tensor_cores"] = figures["tensor_cores_per_sm"] * gpu.sm_count
    if threads := gpu.max_threads_per_sm or figures.get("max_threads_per_sm"):
        decided["max_warps_per_sm"] = threads // _THREADS_PER_WARP
    decided = {name: value for name, value in decided.items() if name in _FIELDS and getattr(gpu, name) is None}
    unverified = (name for name in table.get("unverified", ()) if name in decided)
    return replace(gpu, **decided, unverified=(*gpu.unverified, *unverified))


def _read(text: str, origin: str) -> list[Gpu]:
    try:
        tables = tomllib.loads(text).get("gpu")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{origin} is not TOML: {error}") from error
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{origin} holds no [[gpu]] table; add one per GPU")
    gpus = [build_gpu(table, f"{origin}: GPU {table.get('name', 'without a name')!r}") for table in tables]
    names = [gpu.name for gpu in gpus]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{origin} holds GPU {twice[0]!r} twice; keep one")
    return gpus


@cache
def _shipped() -> tuple[Gpu, ...]:
    """The GPUs of our own file, read and checked once: that takes 15 ms, and every use of a GPU name loads the catalogue."""
    return tuple(_read((files(__package__) / "gpus.toml").read_text("utf-8"), "gpus.toml"))


def load_catalog(extra: Path | None = None) -> Catalog:
    """Load the shipped catalogue, followed by the GPUs of a user's own TOML file.

    A GPU of the same name replaces ours; it need not repeat what no data sheet has, such as our other names for it.

    Raises:
        InputError: ``extra`` is missing, not TOML, or holds a GPU with a missing, unknown or impossible figure.
    """
    gpus = {gpu.name: gpu for gpu in _shipped()}
    if extra is not None:
        try:
            text = Path(extra).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the GPU file {str(extra)!r}: {error}") from error
        for gpu in _read(text, str(extra)):
            if ours := gpus.get(gpu.name):
                lacking = [name for name in _KEPT if getattr(gpu, name) in (None, ())]
                gpu = replace(gpu, **{name: getattr(ours, name) for name in lacking})
            gpus[gpu.name] = gpu
    return Catalog(list(gpus.values()))
