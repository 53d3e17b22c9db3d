"""The ``epochcast`` command: one file per subcommand, loaded when it is called.

Exit codes: 0 an answer, 1 no answer (``record``: the command's own), 2 bad usage or input with one sentence on stderr.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import click

from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.group import LazyGroup
from epochcast.analyzer.errors import AgentError, InputError

_COMMANDS = {
    "record": "Run a command while sampling this node at 10 Hz, and write a trace.",
    "detect": "Find the epochs of a trace.",
    "profile": "Summarise a trace into the profile that predictions start from.",
    "predict": "Predict the epoch time on every other GPU.",
    "predict-model": "Predict from the model itself, before it runs.",
    "simulate-packing": "Simulate packing jobs on shared GPUs by their predicted occupancy.",
    "recommend": "Rank cloud instances by cost or time.",
    "prices": "List instances and their prices, and bring them up to date.",
    "gpus": "List the GPUs that Epochcast can predict for.",
    "fit": "Fit a predictor to measurements.",
    "fleet": "Analyse the traces of thousands of GPUs in one report.",
    "serve": "Run the analyzer as a service: HTTP API, web page, metrics.",
    "demo": "Try every step on this machine; no GPU needed.",
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    summaries=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(package_name="epochcast")
def cli() -> None:
    """Predict a training job's time and cost on other GPUs from the telemetry of the GPU it runs on.

    \b
    a GPU node:  epochcast record --out run.parquet -- python train.py
    a log:       epochcast recommend nvidia-smi.csv
    a model:     epochcast predict-model occupancy --network resnet50
    nothing yet: epochcast demo
    """


def main(argv: Sequence[str] | None = None, command: click.Command = cli, name: str = "epochcast") -> int:
    """Run a command line and return its exit code; every bad input ends as one sentence on stderr."""
    try:
        status = command.main(args=argv, prog_name=name, standalone_mode=False)
        if sys.stdout is not None:  # None: started with standard output closed
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a command: its help, in its lines
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _refuse(error.format_message())
    except click.Abort:
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`epochcast predict … | head`): nothing to say, and nobody to say it to.
        _discard_output()
        return 1
    except AgentError as error:  # an OSError too
        terminal.note(str(error))
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _discard_output()
        return _refuse(f"cannot write the answer: {error.strerror}; make room or write it elsewhere")
    except ValueError as error:
        if not _is_input_error(error):
            raise
        return _refuse(str(error))
    finally:
        progress.clear()
    return status if isinstance(status, int) else 0


def _discard_output() -> None:
    """Send what is still buffered nowhere, or the interpreter would complain about it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_input_error(error: ValueError) -> bool:
    """Whether one of the rooms' InputErrors; a room that is not loaded cannot have raised one."""
    rooms = [sys.modules.get(f"epochcast.{room}.errors") for room in ("detector", "regressor")]
    kinds = (InputError, *(room.InputError for room in rooms if room is not None))
    return isinstance(error, kinds)


def _refuse(sentence: str) -> int:
    terminal.note(" ".join(sentence.split()))
    return 2
