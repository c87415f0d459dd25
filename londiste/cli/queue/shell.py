"""``queue shell``: terminal, history and signals of the interactive prompt.

``londiste.shell`` parses and executes the statements.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import click
from psycopg import conninfo

from londiste.cli import options, output
from londiste.cli.documents import Done, Rows
from londiste.cli.errors import tell
from londiste.errors import BadOption, LondisteError, UsageError
from londiste.settings import DatabaseSettings
from londiste.shell import completion, lexer
from londiste.shell.session import Result, Session
from londiste.shell.statements import execute

HISTORY = "~/.londiste_history"
HISTORY_LINES = 2000


#: The columns of a statement; a document for each statement.
ROWS = Rows("rows", dict[str, Any])


@click.command()
@click.option(
    "-Q", "--queue", "queue", metavar="QUEUE", help="Default queue for statements that name none."
)
@click.option(
    "-c",
    "--command",
    "commands",
    multiple=True,
    metavar="TEXT",
    help="Run these statements, then exit; repeatable.",
)
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    help="Run the statements of a file (- = standard input).",
)
@click.option("-d", "--dbname", metavar="NAME", help="Database name.")
@click.option("-h", "--host", metavar="HOST", help="Database host.")
@click.option("-p", "--port", metavar="PORT", help="Database port.")
@click.option("-U", "--user", metavar="NAME", help="Database user.")
@options.database
@options.json_output(ROWS, Done)
@options.pass_context
def shell(
    ctx: options.Context,
    queue: str | None,
    commands: Sequence[str],
    file: str | None,
    dbname: str | None,
    host: str | None,
    port: str | None,
    user: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Open an interactive prompt for queues, which also takes SQL.

    Statements end with a semicolon and may span lines; "show help;" lists them.  TAB completes, ^C
    clears the input, ^D exits.  With --command or --file, or without a terminal, the first error
    ends the shell with its exit code.
    """
    parts = {"dbname": dbname, "host": host, "port": port, "user": user}
    given = {name: value for name, value in parts.items() if value is not None}
    if given:
        db = conninfo.make_conninfo(_base(ctx, db), **given)
    settings = ctx.settings(DatabaseSettings, db=db)
    show = _as_json if as_json else _print
    with contextlib.closing(Session(settings.db, queue=queue, notice=output.message)) as session:
        if not commands and file is None and sys.stdin.isatty():
            _interactive(session, show)
        else:
            _run_script(session, _texts(commands, file), show)
    return 0


def _base(ctx: options.Context, db: str | None) -> str:
    """The database whose parts ``-d`` and the others replace; empty without settings."""
    try:
        return ctx.settings(DatabaseSettings, db=db).db
    except BadOption:
        if db is not None or ctx.config is not None:
            raise
        return ""


def _texts(commands: Sequence[str], file: str | None) -> Iterator[str]:
    """The texts of a script; each is read when those before it have run."""
    yield from commands
    if file is not None or not commands:
        yield _read(file or "-")


def _run_script(session: Session, texts: Iterable[str], show: Callable[[Result], None]) -> None:
    """Runs texts up to an exit.  Raises UsageError where the last transaction is not committed."""
    for text in texts:
        if _run_all(session, text, show):
            break
    if session.in_transaction:
        raise UsageError(
            "the transaction was not committed: rolled back",
            hint="end the statements with commit; they have begun a transaction",
        )


def _run_all(session: Session, text: str, show: Callable[[Result], None]) -> bool:
    """Runs the statements of a text, the last also without ``;``; true when one was exit."""
    statements, rest = lexer.split(text)
    for one in [*statements, *([rest] if rest.strip() else [])]:
        result = execute(session, one)
        if result.end:
            return True
        show(result)
    return False


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"cannot read {file}: {error}", hint="give a readable file") from None


def _interactive(session: Session, show: Callable[[Result], None]) -> None:
    output.message(f"londiste shell on {session.prompt.split('=')[0]}; show help; ^D exits")
    with _readline(session) as buffer:
        while True:
            try:
                more = bool(buffer.text.strip())
                line = input(_continued(session.prompt) if more else session.prompt)
            except EOFError:
                click.echo("")
                return
            except KeyboardInterrupt:
                click.echo("^C")
                buffer.text = ""
                continue
            buffer.text += line + "\n"
            if not more and line.strip().lower() in {"exit", "quit", "help"}:
                # These are accepted without the semicolon.
                buffer.text = line + ";"
            statements, rest = lexer.split(buffer.text)
            # While a statement runs, ^C ends the statement and not the shell.
            buffer.text = rest
            for one in statements:
                try:
                    result = execute(session, one)
                except LondisteError as error:
                    tell(error)
                    break
                except KeyboardInterrupt:
                    click.echo("cancelled", err=True)
                    break
                if result.end:
                    return
                show(result)


class _Buffer:
    """What was typed of an unfinished statement, in the lines above the cursor's."""

    text = ""


@contextlib.contextmanager
def _readline(session: Session) -> Iterator[_Buffer]:
    """Completion and history of the prompt; neither without readline."""
    buffer = _Buffer()
    try:
        import readline
    except ImportError:
        yield buffer
        return
    path = Path(os.environ.get("LONDISTE_HISTORY") or HISTORY).expanduser()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    length = readline.get_current_history_length()
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            line = buffer.text + readline.get_line_buffer()[: readline.get_endidx()]
            # What readline takes for a word may be the end of a name in quotes.
            before = len(completion.begun(line)) - len(text)
            try:
                candidates = completion.complete(line, completion.catalog(session), session.queue)
            except LondisteError:
                candidates = []
            found[:] = [one[before:] for one in candidates]
        if state >= len(found):
            return None
        word = found[state]
        return word if word.endswith(("=", " ")) else word + " "

    readline.set_completer(complete)
    # A name in quotes is one word, with its quotes.
    readline.set_completer_delims(" \t\n,;=()")
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    try:
        yield buffer
    finally:
        readline.set_completer(None)
        _keep_history(path, length)


def _keep_history(path: Path, before: int) -> None:
    """Adds this session's lines to the file: other sessions may have added theirs."""
    import readline

    new = readline.get_current_history_length() - before
    if new <= 0:
        return
    try:
        path.touch(mode=0o600)
        readline.append_history_file(new, path)
        readline.clear_history()
        readline.read_history_file(path)
        if readline.get_current_history_length() > HISTORY_LINES:
            readline.set_history_length(HISTORY_LINES)
            readline.write_history_file(path)
    except OSError as error:
        output.warning(f"history not saved in {path}: {error.strerror}")


def _continued(prompt: str) -> str:
    return prompt.split("=")[0] + "-> "


def _print(result: Result) -> None:
    if result.columns:
        output.table(result.columns, result.rows)
    for line in result.lines:
        _say(line, sys.stderr if result.columns else sys.stdout)


def _say(line: str, stream: TextIO) -> None:
    if stream is sys.stderr:
        output.message(line)
    else:
        click.echo(output.cell(line))


def _as_json(result: Result) -> None:
    if result.columns:
        output.as_json(
            {ROWS.key: [dict(zip(result.columns, row, strict=True)) for row in result.rows]}
        )
    else:
        output.as_json(Done(done=list(result.lines)))
