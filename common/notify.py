"""What a service reports to systemd, after sd_notify(3): datagrams to the socket that the service manager names.

The states: ``READY=1``, `reloading`, ``STOPPING=1``, ``WATCHDOG=1``, ``STATUS=`` and a line of text; several go into one
datagram, a line each.
"""

import contextlib
import os
import socket
import time

# A manager that does not read its socket must not stop the sampling.
LONGEST_SEND_S = 0.1


def notify(state: str) -> None:
    """Send ``state`` to the service manager; without one (no $NOTIFY_SOCKET), or when it does not listen, do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):  # Linux's abstract namespace: no file
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.settimeout(LONGEST_SEND_S)
        sender.sendto(state.encode(), address)


def reloading() -> str:
    """Return the state to send before a reload; ``READY=1`` must follow. systemd tells reloads apart by the time in it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def watchdog_interval() -> float | None:
    """Return seconds between two ``WATCHDOG=1``, None when nobody waits for any: half of $WATCHDOG_USEC, as systemd advises."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # inherited: the watchdog is a parent's
    try:
        timeout = int(os.environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    return timeout / 2e6 if timeout > 0 else None
