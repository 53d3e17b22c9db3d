"""A group of commands that names the nearest command where there is none of the name given."""

from __future__ import annotations

from difflib import get_close_matches

import click


class Group(click.Group):
    """A group that answers a mistyped command with the one that was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """See click, whose own suggestion does not know commands that are loaded when they are called."""
        name = args[0]
        if not (name.startswith("-") or ctx.resilient_parsing) and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"see {ctx.command_path} --help"
            ctx.fail(f"there is no command {name!r}; {remedy}")
        return super().resolve_command(ctx, args)
