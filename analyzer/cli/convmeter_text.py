"""What ``epochcast predict-model convmeter`` says to a reader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..backends.convmeter.answer import RATE_OF, main_phase, main_rates
from ..tables import interval_text, seconds_text, table, with_prefix
from ..words import count, money, number

_FITS = {True: "fits", False: "does not fit", None: "may fit"}


def prediction_text(answer: Mapping[str, Any]) -> str:
    """The whole answer on a network."""
    predictions = answer["predictions"]
    parts = [
        _headline(answer),
        _grid(answer) if len(predictions) > 1 else _one(predictions[0]),
        "\n".join(_scaling(scaling) for scaling in answer["scaling"]),
        "\n".join(_batches(batches) for batches in answer["batches"]),
        _price(predictions, answer["gpu"]),
        rests_on(answer["fitted"]),
    ]
    return "\n\n".join(part for part in parts if part)


def blocks_text(answer: Mapping[str, Any]) -> str:
    """The blocks of a network beside it."""
    phases = list(answer["blocks"][0]["phases"])
    header = ("block", "FLOPs", "weights", *phases)
    rows = [
        (
            one["block"] or "the whole network",
            with_prefix(one["metrics"]["flops"], ""),
            with_prefix(one["metrics"]["weights"], ""),
            *(seconds_text(one["phases"][phase]["seconds"]) for phase in phases),
        )
        for one in answer["blocks"]
    ]
    parts = [
        f"{answer['network']} at {answer['image_size']} x {answer['image_size']}, batch {answer['batch']}, on {_where(answer)}",
        table(header, rows),
        rests_on(answer["fitted"]),
    ]
    return "\n\n".join(part for part in parts if part)


def rests_on(fitted: Mapping[str, Mapping[str, Any]]) -> str:
    """What each phase was fitted on, and how far off it is for networks that were left out."""
    rows = [
        (
            phase,
            one["form"],
            str(one["points"]),
            str(one["networks"]),
            " to ".join(dict.fromkeys(f"{end:.0f}" for end in one["batches"])),
            "-" if math.isnan(one["mape"]) else f"{one['mape']:.1f} %",
            "-" if math.isnan(one["factor"]) else f"x {1 / one['factor']:.2f} to x {one['factor']:.2f}",
        )
        for phase, one in fitted.items()
    ]
    sources = [f"{phase} measured by: {one['source']}" for phase, one in fitted.items() if one["source"]]
    header = ("fitted", "form", "points", "networks", "batches", "error if left out", "90 % interval")
    return "\n".join([table(header, rows), *sources])


def _headline(answer: Mapping[str, Any]) -> str:
    metrics = answer["metrics"]
    return (
        f"{answer['network']} at {answer['image_size']} x {answer['image_size']} on {_where(answer)}\n"
        f"{with_prefix(metrics['flops'], 'FLOPs')} per image, {with_prefix(metrics['weights'], '')} weights, "
        f"{metrics['layers']:.0f} convolutions and dense layers"
    )


def _where(answer: Mapping[str, Any]) -> str:
    return f"{answer['device']}, {answer['precision']}"


def _one(prediction: Mapping[str, Any]) -> str:
    """One batch on one number of devices, phase by phase."""
    nodes = f" in {prediction['nodes']} nodes" if prediction["nodes"] > 1 else ""
    rows = [
        (phase, seconds_text(one["seconds"]), "-" if math.isnan(one["low"]) else interval_text(one["low"], one["high"]))
        for phase, one in prediction["phases"].items()
    ]
    lines = [
        f"batch {prediction['batch']} on {_devices(prediction['devices'])}{nodes}",
        table(("phase", "time", "90 % interval"), rows),
    ]
    lines += [
        f"{name}: {number(rate['value'])} images/s ({_ends(rate)})" for name, rate in prediction["images_per_second"].items()
    ]
    if prediction["epoch_seconds"] is not None:
        lines.append(f"epoch: {seconds_text(prediction['epoch_seconds'])}{_whole(prediction)}")
    if prediction["memory"] is not None:
        lines.append(f"memory of a training step: {_memory(prediction['memory'], known=True)}")
    return "\n".join(lines)


def _grid(answer: Mapping[str, Any]) -> str:
    """One line per batch and number of devices."""
    predictions = answer["predictions"]
    first = predictions[0]
    phases = [phase for phase in ("inference", "step") if phase in first["phases"]]
    columns = {
        "devices": [str(one["devices"]) for one in predictions],
        **({"nodes": [str(one["nodes"]) for one in predictions]} if any(one["nodes"] > 1 for one in predictions) else {}),
        "batch": [str(one["batch"]) for one in predictions],
        **{phase: [seconds_text(one["phases"][phase]["seconds"]) for one in predictions] for phase in phases},
        f"{RATE_OF[main_phase(first['phases'])]} images/s": [number(rate["value"]) for rate in main_rates(predictions)],
    }
    if answer["scaling"]:
        columns["speed-up"] = [f"{value:.2f}" for scaling in answer["scaling"] for value in scaling["speed_up"]]
        columns["efficiency"] = [f"{100 * value:.0f} %" for scaling in answer["scaling"] for value in scaling["efficiency"]]
    if first["epoch_seconds"] is not None:
        columns["epoch"] = [seconds_text(one["epoch_seconds"]) for one in predictions]
    if any(one["cost"] is not None for one in predictions):
        columns["cost per epoch"] = [money(one["cost"] and one["cost"]["usd_per_epoch"]) for one in predictions]
    if first["memory"] is not None:
        columns["memory"] = [_memory(one["memory"], known=False) for one in predictions]
    return table(list(columns), list(zip(*columns.values(), strict=True)))


def _ends(rate: Mapping[str, float]) -> str:
    """Both ends; too few networks were measured for any where they are not known."""
    return "-" if math.isnan(rate["low"]) else f"{number(rate['low'])} to {number(rate['high'])}"


def _memory(memory: Mapping[str, Any], *, known: bool) -> str:
    unit, name = (2.0**30, "GiB") if memory["high"] >= 1000 * 2.0**20 else (2.0**20, "MiB")
    size = f"{number(memory['low'] / unit)} to {number(memory['high'] / unit)} {name}"
    if memory["capacity"] is None:
        return f"{size} (that of the device is not known)" if known else size
    return f"{size}, {_FITS[memory['fits']]}" + (f" in {memory['capacity'] / 2**30:.1f} GiB" if known else "")


def _whole(prediction: Mapping[str, Any]) -> str:
    """All epochs, and the cost of one and of all."""
    cost, seconds = prediction["cost"], prediction["seconds"]
    dear = "" if cost is None else f", {money(cost['usd_per_epoch'])}"
    if seconds is None:
        return dear
    return f"{dear}; all epochs: {seconds_text(seconds)}" + ("" if cost is None else f", {money(cost['usd'])}")


def _scaling(scaling: Mapping[str, Any]) -> str:
    """Where more devices stop paying."""
    held = f"batch {scaling['batch']} on each" if scaling["mode"] == "weak" else "global batch held"
    turn = scaling["turning_point"]
    pays = (
        f"{_devices(scaling['devices'][-1])}, the most asked for, still pay (10 % more throughput per doubling than fewer)"
        if turn is None
        else f"beyond {_devices(turn)} no number asked for brings 10 % more throughput per doubling"
    )
    lines = [f"{scaling['mode']} scaling, {held}: {pays}; highest throughput on {_devices(scaling['fastest'])}"]
    if scaling["cheapest"] is not None:
        lines.append(
            f"cheapest epoch on {_devices(scaling['cheapest'])}; lowest time x cost on {_devices(scaling['knee'])} (beyond it "
            "a per cent of time costs more than a per cent of money)"
        )
    return "\n".join(lines)


def _devices(number_of: int) -> str:
    return count(number_of, "device")


def _batches(batches: Mapping[str, Any]) -> str:
    on = "" if batches["devices"] == 1 else f" on {_devices(batches['devices'])}"
    enough = batches["large_enough"]
    if enough == batches["largest"]:
        return f"throughput{on} still grows with the batch at {enough}, the largest asked for"
    return f"smallest batch within 5 % of the highest throughput here{on}: {enough}"


def _price(predictions: Sequence[Mapping[str, Any]], gpu: str | None) -> str:
    """What the cost is based on; why there is none where it could be expected."""
    if predictions[0]["epoch_seconds"] is None:
        return ""
    priced = [one["cost"] for one in predictions if one["cost"] is not None]
    if not priced:
        return (
            "cost: which GPU this device is is not known; name it with --gpu"
            if gpu is None
            else f"cost: no on-demand price of a {gpu} is known; give a table of your own with --prices FILE"
        )
    rented = dict.fromkeys(
        f"{one['count']} x {one['instance']} ({count(one['gpus_each'], 'GPU')}) of {one['cloud']}"
        f"{'' if one['region'] == 'any' else ' in ' + one['region']} at {money(one['usd_per_hour'])}/h"
        for one in priced
    )
    return f"cost: on {'; '.join(rented)} (price of {priced[0]['price_of']})"
