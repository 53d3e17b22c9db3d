"""How a missing extra is installed: the one place that says it, for all rooms. The package is in no index yet."""


def how_to_install(extra: str = "") -> str:
    """The end of a sentence about something that is not installed; without an extra, for the package itself."""
    what = f"'.[{extra}]'" if extra else "."
    return f"in a checkout run pip install {what}, or give the path of the wheel in place of the dot"
