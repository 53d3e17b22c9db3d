"""``--batch-may-grow``, the same for every command that has it."""

from __future__ import annotations

import click

batch_may_grow_option = click.option(
    "--batch-may-grow",
    is_flag=True,
    help="The batch grows with a GPU's memory, if the job needs no more epochs then. [default: it stays]",
)
