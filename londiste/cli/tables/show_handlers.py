"""``londiste show-handlers``: lists the handlers and their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.handlers import registry
from londiste.settings import NodeSettings


class Handler(TypedDict):
    """A handler."""

    handler: str
    aliases: list[str]
    does: str
    options: list[registry.HandlerOption]


HANDLERS = Rows("handlers", Handler)


@click.command("show-handlers")
@options.pass_context
@click.argument("names", nargs=-1, metavar="[NAME]...")
@options.json_output(HANDLERS)
def show_handlers(context: options.Context, names: Sequence[str], as_json: bool) -> None:
    """List the handlers, or describe some with their options.

    Your own handlers are found with the setting handler_modules.
    """
    if context.config is not None or context.overrides:
        # Their modules are known from the settings.
        context.settings(NodeSettings)
    found = [registry.find(name) for name in names or registry.names()]
    described: list[Handler] = [
        {
            "handler": kind.NAME,
            "aliases": list(kind.ALIASES),
            "does": " ".join((kind.__doc__ or "").split()),
            "options": registry.options(kind),
        }
        for kind in found
    ]
    if as_json:
        output.as_json({HANDLERS.key: described})
        return
    if not names:
        output.table(["handler", "does"], [[d["handler"], d["does"]] for d in described])
        return
    for number, one in enumerate(described):
        if number:
            click.echo()
        also = f" (also {', '.join(one['aliases'])})" if one["aliases"] else ""
        click.echo(f"{one['handler']}{also}: {one['does']}")
        for o in one["options"]:
            rest = "required" if o.default is None else f"default {o.default or 'none'}"
            click.echo(f"  {o.name} = {o.takes} ({rest}): {o.help}")
