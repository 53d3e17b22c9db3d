"""Numbers as Grafana writes them, for the units that the dashboards use."""

from math import isnan


def formatted(value: float, unit: str, decimals: int | None = None) -> str:
    """Return a value with its unit, as short as Grafana writes it."""
    if isnan(value):
        return "–"
    if unit == "percentunit":
        return f"{_short(100 * value, 1 if decimals is None else decimals)}%"
    if unit == "s":
        return _seconds(value)
    if unit == "currencyUSD":
        return f"${value:,.{2 if decimals is None else decimals}f}"
    if unit == "bytes":
        return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    if unit == "Bps":
        return _scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s"))
    if unit == "hertz":
        return _scaled(value, 1000, ("Hz", "kHz", "MHz", "GHz"))
    suffix = {"watt": " W", "celsius": " °C", "cps": " c/s", "reqps": " req/s"}.get(unit, "")
    return f"{_short(value, 2 if decimals is None else decimals)}{suffix}"


def _seconds(value: float) -> str:
    for length, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if abs(value) >= length:
            return f"{_short(value / length, 2)} {name}"
    return f"{_short(1e6 * value, 2)} µs" if value else "0 s"


def _scaled(value: float, base: int, names: tuple[str, ...]) -> str:
    place = 0
    while abs(value) >= base and place < len(names) - 1:
        value, place = value / base, place + 1
    return f"{_short(value, 2)} {names[place]}"


def _short(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
