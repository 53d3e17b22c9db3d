"""Real-time scheduling of the threads that sample, for a service that was given it: `epochcast-agent install --real-time`.

A limit of real-time run time, which processes have not by default, is what turns it on: no thread runs in real time unless
somebody chose that, nor without a limit. Threads that serve HTTP stay ordinary ones.
"""

import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger(__name__)

# The lowest priority before all ordinary threads.
PRIORITY = 1


def allowed() -> bool:
    """Whether this process has a limit of real-time run time."""
    return resource.getrlimit(resource.RLIMIT_RTTIME)[0] != resource.RLIM_INFINITY


def enter() -> None:
    """Run the calling thread in real time where that is allowed; a system that refuses leaves it as it is and is logged."""
    if allowed():
        try:
            # Threads that a driver's library starts from this one are ordinary again.
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
        except OSError as error:
            log.warning("no real-time scheduling, sampling continues without it: %s", error.strerror)


def on_overrun(call: Callable[[], None]) -> None:
    """Call from a thread of its own, at once, when a thread has used up its real-time run time.

    By the wake-up descriptor: the kernel sends the signal to any thread, on Linux 6.18 the one that overruns, and Python
    handles signals in the main thread, which may be waiting. For the main thread only; raises ValueError elsewhere.
    """
    awake, wake = socket.socketpair()
    wake.setblocking(False)

    def attend() -> None:
        with wake:
            while number := awake.recv(1):
                if number[0] == signal.SIGXCPU:
                    call()

    # Without a handler of Python's nothing is written to the descriptor.
    signal.signal(signal.SIGXCPU, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=attend, name="overruns", daemon=True).start()


def leave(thread: int) -> None:
    """Make a thread, by its native id, an ordinary one."""
    with suppress(ProcessLookupError):
        os.sched_setscheduler(thread, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
