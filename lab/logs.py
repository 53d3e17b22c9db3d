"""Logs as people have them, format x damage x locale x GPUs, each with its truth: how many are read, and read right?

Every row tells its tick and its GPU: memory is 10,000 MiB and one more at each tick, the temperature 40 °C and one more for
each GPU, so that a reader that mixes GPUs, loses an hour or shifts a column is found out.
"""

from __future__ import annotations

import codecs
import random
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.job_traces import read_job

TICKS = 300
START = 1_774_735_865  # 2026-03-28 22:11:05 UTC
FIRST_MIB, FIRST_C = 10_000, 40

_SMI = "utilization.gpu [%], power.draw [W], memory.used [MiB], temperature.gpu"
_READINGS = "{util} %, {power:.2f} W, {mem} MiB, {temp}"
_DMON = "{gpu} {power:.0f} {temp} - {util} 9 {mem}"
#: Format -> its first lines, and what it writes of a GPU at a tick.
FORMS = {
    "smi": (f"timestamp, index, name, {_SMI}, fan.speed [%]", f"{{smi}}, {{gpu}}, NVIDIA A100, {_READINGS}, [N/A]"),
    "smi nounits": (f"timestamp, uuid, pstate, {_SMI}", "{smi}, GPU-{gpu}d1f, P0, {util}, {power:.2f}, {mem}, {temp}"),
    "smi bursts": (f"timestamp, name, {_SMI}", f"{{smi}}, NVIDIA A100-SXM4-40GB, {_READINGS}"),
    "smi noheader": (
        "# nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,memory.used,temperature.gpu --format=csv,noheader",
        f"{{smi}}, {{gpu}}, {_READINGS}",
    ),
    "gpustat": (
        "query_time,index,name,temperature.gpu,utilization.gpu,power.draw,memory.used",
        "{iso},{gpu},A100,{temp},{util},{power},{mem}",
    ),
    "dmon -o DT": (
        "#Date Time gpu pwr gtemp mtemp sm mem fb\n#YYYYMMDD HH:MM:SS Idx W C",
        f" {{date}} {{clock}} {_DMON}",
    ),
    "dmon -o T": ("#Time gpu pwr gtemp mtemp sm mem fb\n#HH:MM:SS Idx W C C % % MB", f" {{clock}} {_DMON}"),
    "dcgmi dmon": (
        f"{START} #Entity SMACT POWINST FBUSD TMPTR\n{START} ID W MB C",
        "{time:.6f} GPU {gpu} 0.{util:02d} {power} {mem} {temp}",
    ),
    "nvitop": ("timestamp", ",{util},{power},{mem},{temp}"),
    "dcgm": (
        "timestamp,gpu,modelName,DCGM_FI_DEV_GPU_UTIL,DCGM_FI_DEV_POWER_USAGE,DCGM_FI_DEV_FB_USED,DCGM_FI_DEV_GPU_TEMP",
        "{time:.3f},{gpu},NVIDIA A100,{util},{power},{mem},{temp}",
    ),
    "own": ("time,gpu_utilization [%],power,memory_used (MiB),temperature", "{time:.3f},{util},{power},{mem},{temp}"),
}
#: What is no log: to be refused.
PRINTED = {
    "dmon": ("# gpu pwr gtemp mtemp sm mem fb\n# Idx W C C % % MB", f" {_DMON}"),
    "pmon": ("# gpu pid type sm mem enc dec command\n# Idx # C/G % % % % name", " {gpu} 4711 C {util} 9 - - python"),
    "table": (
        "+" + "-" * 79 + "+\n| NVIDIA-SMI 535.104.05   Driver Version: 535 |",
        "| {power:.0f}W / 400W | {mem}MiB |",
    ),
}
DAMAGES = ("none", "cut", "restarted", "incomplete", "swapped", "repeated", "hour back", "hour ahead", "no reading")
LOCALES = ("utf-8", "utf-16", "crlf", "semicolons", "decimal commas")
_LOCAL = re.compile("smi|iso|clock")


@dataclass(frozen=True)
class Log:
    """One log: its format, what happened to it, how its text and numbers are written, how many GPUs are in it, the file."""

    form: str
    damage: str
    locale: str
    gpus: int
    content: bytes


def make_log(form: str, damage: str, locale: str, gpus: int, dice: random.Random) -> Log:
    """A log with this damage, as far as its format can have it; else without."""
    first, row = (FORMS | PRINTED)[form]
    gpus = 1 if form == "own" else gpus
    damage = "none" if damage.startswith("hour") and not _LOCAL.search(row) else damage
    ahead = {"hour back": -3600, "hour ahead": 3600}.get(damage, 0)
    lost = set(dice.sample(range(TICKS * gpus), 4 if damage == "incomplete" else 0))
    lines = first.split("\n")
    if form == "nvitop":
        keys = ("gpu_utilization (%)", "power_usage (W)", "memory_used (MiB)", "temperature (C)")
        lines = [",".join([first, *(f"daemon/cuda:{gpu} (gpu:{gpu})/{key}/mean" for gpu in range(gpus) for key in keys)])]
    header = len(lines)
    for tick in range(TICKS):
        rows = [row.format_map(_values(tick, gpu, ahead)) for gpu in range(gpus) if tick * gpus + gpu not in lost]
        if form == "nvitop":
            rows = [f"{START + tick}" + "".join(rows)] if len(rows) == gpus else []
        lines += [*(first.split("\n") if "dmon -o" in form and tick and tick % 20 == 0 else []), *rows]
    body = [place for place in range(header, len(lines) - 2) if not {"#"} & {lines[place][:1], lines[place + 1][:1]}]
    for place in dice.sample(body, 5 if damage in ("swapped", "repeated") and not (damage == "repeated" and gpus > 1) else 0):
        lines[place], lines[place + 1] = (lines[place + 1] if damage == "swapped" else lines[place]), lines[place]
    place = dice.choice(body)
    if damage == "restarted":
        lines[place] = lines[place][: len(lines[place]) // 2] + lines[place + 1]
    elif damage == "no reading":
        lines[place] = lines[place].replace("97 %", "[N/A]").replace("342.75 W", "[Unknown Error]")
    text = "\n".join(lines) + "\n"
    text = text[: -dice.randrange(8, 25)] if damage == "cut" else text
    if locale == "semicolons" and "," in row and form != "nvitop" and not text.startswith("#"):
        text = re.sub(r"(?<=\d)\.(?=\d)", ",", re.sub(", ?", ";", text))
    elif locale == "decimal commas" and form.startswith("smi"):
        text = first + re.sub(r"(?<=\d)\.(?=\d)", ",", text.removeprefix(first))
    text = text.replace("\n", "\r\n") if locale == "crlf" else text
    return Log(
        form, damage, locale, gpus, codecs.BOM_UTF16_LE + text.encode("utf-16-le") if locale == "utf-16" else text.encode()
    )


def _values(tick: int, gpu: int, ahead: int) -> dict[str, object]:
    time = START + tick + gpu / 1000 + (ahead if tick >= TICKS / 2 else 0)
    moment = pd.Timestamp(round(time * 1000), unit="ms")
    busy = 97 if tick % 60 < 50 else 3
    return {
        "time": time,
        "smi": f"{moment:%Y/%m/%d %H:%M:%S.%f}"[:-3],
        "iso": f"{moment:%Y-%m-%dT%H:%M:%S.%f}",
        "date": f"{moment:%Y%m%d}",
        "clock": f"{moment:%H:%M:%S}",
        "gpu": gpu,
        "util": busy,
        "power": 100.25 + 2.5 * busy,
        "mem": FIRST_MIB + tick,
        "temp": FIRST_C + gpu,
    }


def judge(log: Log, path: Path) -> tuple[str, str]:
    """``right``, ``refused`` or ``wrong``, and why."""
    path.write_bytes(log.content)
    try:
        traces = [trace for _, trace in read_job([str(path)])]
    except InputError as error:
        foreign = re.search(r"pandas|codec|index_col|Expected|tokeniz|\n", str(error))
        return ("wrong" if foreign else "refused"), str(error)
    if log.form in PRINTED or len(traces) != log.gpus:
        return "wrong", f"{len(traces)} GPUs of {log.gpus}"
    for place, trace in enumerate(traces):
        gpu = int((re.findall(r"\d+$", trace.label or "") or [place])[0]) if "bursts" not in log.form else place
        metrics = trace.metrics()
        ticks = np.round(metrics["memory_used"] / 2.0**20 - FIRST_MIB)
        late_s = np.ptp(trace.time - (START + ticks + gpu / 1000))
        busy = metrics["sm_active" if log.form == "dcgmi dmon" else "gpu_utilization"]
        wrong = np.nanmax(np.abs(busy - np.where(ticks % 60 < 50, 0.97, 0.03)))
        if len(ticks) < 0.9 * TICKS or late_s > 1.01 or wrong > 1e-6 or (metrics["temperature"] != FIRST_C + gpu).any():
            return "wrong", f"GPU {gpu}: {len(ticks)} rows, {late_s:.3f} s late, {wrong:.2f} of utilization"
    notes = "; ".join(traces[0].notes)
    if (log.damage.startswith("hour") and "by an hour" not in notes) or (log.damage == "cut" and "cut" not in notes):
        return "wrong", "the repair is not noted"
    return "right", notes


def make_logs(number: int) -> list[Log]:
    """So many logs, the same ones each time; one in twenty is none."""
    dice = random.Random(59)
    logs = []
    for place in range(number):
        form = dice.choice(list(PRINTED if place % 20 == 19 else FORMS))
        logs.append(make_log(form, dice.choice(DAMAGES), dice.choice(LOCALES), dice.choice((1, 2, 8)), dice))
    return logs
