"""``--batch-may-grow``, the same for every command that has it."""

from __future__ import annotations

import click

batch_may_grow_option = click.option(
    "--batch-may-grow",
    is_flag=True,
    help="Let the batch grow with a GPU's memory (assumes no more epochs are needed). [default: it stays the same]",
)
