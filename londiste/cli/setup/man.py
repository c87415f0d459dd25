"""``londiste man``: writes the manual pages, made from the commands and their options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from londiste import __version__
from londiste.cli import output
from londiste.daemon.files import write_hint
from londiste.errors import BadOption

_DOCS = "https://github.com/londiste/londiste/tree/main/docs"


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def man(directory: Path) -> None:
    """Write the manual pages of all commands into DIRECTORY/man1.

    \b
    londiste man ~/.local/share/man
    man londiste-worker
    """
    from londiste.cli import cli

    target = directory / "man1"
    count = 0
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in pages(cli):
            (target / f"{name}.1").write_text(text, encoding="utf-8")
            count += 1
    except OSError as error:
        raise BadOption(
            f"{target}: cannot be written: {error.strerror}",
            hint=write_hint(error, "choose another directory"),
        ) from error
    output.message(f"wrote {count} pages into {target}")


def pages(program: click.Command) -> Iterator[tuple[str, str]]:
    """Name and text of the page of each command that is not hidden."""
    yield from _pages(program, click.Context(program, info_name="londiste"))


def _pages(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, str]]:
    words = ctx.command_path.split()
    below = _below(command, ctx)
    yield "-".join(words), _page(command, ctx, below)
    for _, one in below:
        yield from _pages(one.command, one)


def _below(command: click.Command, ctx: click.Context) -> list[tuple[str, click.Context]]:
    """The commands of a group, without hidden ones and other names of the same."""
    if not isinstance(command, click.Group):
        return []
    found: list[tuple[str, click.Context]] = []
    for name in command.list_commands(ctx):
        one = command.get_command(ctx, name)
        if one is not None and not one.hidden:
            found.append((name, click.Context(one, info_name=name, parent=ctx)))
    return found


def _page(
    command: click.Command, ctx: click.Context, below: list[tuple[str, click.Context]]
) -> str:
    name = "-".join(ctx.command_path.split())
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    first, *rest = _paragraphs(command.help or command.get_short_help_str(200))
    lines = [
        f'.TH "{_text(name.upper())}" 1 "" "Londiste {_text(__version__)}" "Londiste"',
        # Long lists of choices cannot be adjusted.
        ".ad l",
        ".SH NAME",
        f"{_text(name)} \\- {_text(' '.join(first).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(usage)}",
    ]
    if rest:
        lines.append(".SH DESCRIPTION")
        for paragraph in rest:
            lines.append(".PP")
            lines += _block(paragraph)
    options = [p.get_help_record(ctx) for p in command.get_params(ctx)]
    shown = [record for record in options if record is not None]
    if shown:
        lines.append(".SH OPTIONS")
        for head, text in shown:
            lines += [".TP", f"\\fB{_text(head)}\\fR", _line(text)]
    if below:
        lines.append(".SH COMMANDS")
        for word, one in below:
            text = one.command.get_short_help_str(200)
            lines += [".TP", f"\\fB{_text(name)}\\-{_text(word)}\\fR(1)", _line(text)]
    lines.append(".SH SEE ALSO")
    if ctx.parent is not None:
        lines.append(f"\\fB{_text('-'.join(ctx.parent.command_path.split()))}\\fR(1),")
    lines.append(_line(_DOCS))
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[list[str]]:
    """Paragraphs as lists of lines; one that begins with ``\\b`` keeps its lines."""
    found: list[list[str]] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        found.append(lines if lines[:1] == ["\b"] else [" ".join(lines)])
    return found


def _block(lines: list[str]) -> list[str]:
    if lines[0] == "\b":
        return [".nf", *(_line(line) for line in lines[1:]), ".fi"]
    return [_line(line) for line in lines]


def _line(text: str) -> str:
    """A line of text; one that begins like a request of roff is protected."""
    escaped = _text(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _text(text: str) -> str:
    """Text with what roff interprets escaped; hyphens stay hyphens, so that they can be pasted."""
    clean = " ".join(text.replace("\\", "\\e").replace("-", "\\-").split())
    return clean.replace('"', "\\(dq").replace("…", "...").replace("–", "\\(en")
