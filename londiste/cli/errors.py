"""Prints errors as ``error:``, ``detail:``, ``hint:`` lines and sets the exit code.

With ``--json`` an error is also a document on stdout.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import logging
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from londiste.cli import hints, layout
from londiste.cli.documents import Failure, as_json
from londiste.daemon import child, crash, logcontext
from londiste.daemon.arguments import without_secrets
from londiste.daemon.files import FULL
from londiste.errors import LondisteError, NodeUnreachable, UsageError, from_database, from_driver
from londiste.wording import bounded, escaped, exception_text

EXIT_USAGE = 2
EXIT_DIFFERENT = 3
EXIT_BUG = 70
EXIT_INTERRUPTED = 130


def run(command: click.Command, argv: Sequence[str], *, name: str = "londiste") -> int:
    """Runs a click command, whose usage calls the program ``name``; the process's exit code.

    Ctrl-C gives 130.  An unexpected exception is a bug: it is reported in one line
    with exit code 70, and with its traceback when LONDISTE_TRACEBACK is set.
    """
    try:
        child.die_with_parent()
        crash.arm()
        _require_text(argv)
        _print_everything()
        _label_early_warnings()
        _remember(command, argv if name == "londiste" else ())
        result = command.main(args=list(argv), prog_name=name, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return int(result) if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    except click.ClickException as error:
        return report(_from_click(error), EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        _document(LondisteError("interrupted"), EXIT_INTERRUPTED)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it.
        _print_nothing_more()
        return 0
    except LondisteError as error:
        return _failed(error)
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            return _unexpected(error)
        _print_nothing_more()
        failure = LondisteError(
            f"cannot write the output: {error.strerror}",
            hint="free space on the target of the output",
        )
        return report(failure, failure.exit_code)
    except Exception as error:
        return _failed(from_database(error)) if from_driver(error) else _unexpected(error)


def _failed(error: LondisteError) -> int:
    failure = _with_another_node(error)
    return report(failure, failure.exit_code)


def _unexpected(error: Exception) -> int:
    """Reports an unexpected exception in one line."""
    if os.environ.get("LONDISTE_TRACEBACK"):
        logging.getLogger(__name__).exception("unexpected error")
    return report(
        LondisteError(
            f"unexpected {type(error).__name__}: {printable(bounded(exception_text(error)))}",
            hint="run again with LONDISTE_TRACEBACK=1 and report the traceback: this is a bug in"
            " Londiste",
        ),
        EXIT_BUG,
    )


def _print_nothing_more() -> None:
    """Discards further output, so that Python reports no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _require_text(argv: Sequence[str]) -> None:
    """Refuses bytes that the locale cannot decode: they arrive as lone surrogates."""
    ours = {f"variable {k}": v for k, v in os.environ.items() if k.startswith("LONDISTE_")}
    words = [(f"argument {printable(word)}", word) for word in argv]
    for what, text in (*words, *ours.items()):
        if any("\ud800" <= c <= "\udfff" for c in text):
            # The value of a variable may be a password.
            raise UsageError(
                f"{what}: not valid in the encoding of the locale",
                hint="use a UTF-8 locale: LC_ALL=C.UTF-8",
            )


def _print_everything() -> None:
    """What the terminal's encoding does not have is shown as ``\\u20ac``, and ends nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Labelled(logging.Formatter):
    """Messages of the log as ``warning: …``."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {phrase(record.getMessage())}"


def _label_early_warnings() -> None:
    """Warnings of commands without a log, and of settings that are read before it is set up."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Labelled())
        logging.lastResort.addFilter(_not_of_driver)


def _not_of_driver(record: logging.LogRecord) -> bool:
    """It warns of what follows an error in a pipeline; the error itself comes to us anyhow."""
    return record.levelno >= logging.ERROR or record.name.split(".")[0] != "psycopg"


_program: click.Command = click.Group()
_call = hints.Given()
_json_wanted = False
_also: dict[str, Any] = {}
#: Words of the call with a password, and how they are shown.
_secret: dict[str, str] = {}
#: A database, as its errors name it, and the node to ask if it does not answer.
_another: tuple[str, str] | None = None


def _remember(program: click.Command, argv: Sequence[str]) -> None:
    """The call, whose options hints repeat."""
    global _program, _call, _json_wanted, _another
    _program, _call, _another = program, hints.given(argv), None
    # Also for calls that no command understands.
    _json_wanted = "--json" in itertools.takewhile(lambda word: word != "--", argv)
    _also.clear()
    _secret.clear()
    for given in argv:
        # The value of --option=value stands alone in messages.
        for word in (given, given.partition("=")[2] if given.startswith("--") else ""):
            shown = without_secrets(word)
            if shown != word:
                _secret.update({shlex.quote(word): shlex.quote(shown), word: shown})


def repeat_in_hints(*words: str) -> None:
    """Lets hints repeat more options in front: those of the command that a call means."""
    global _call
    if _call.front[-len(words) :] != words:
        _call = replace(_call, front=(*_call.front, *words))


def offer_another_node(place: str, node: str) -> None:
    """Lets the error about a database that does not answer name the node to ask instead.

    place -- the database, by ``describe_dsn``.
    """
    global _another
    _another = place, node


def _with_another_node(failure: LondisteError) -> LondisteError:
    if isinstance(failure, NodeUnreachable) and _another is not None:
        place, node = _another
        if f"{place}: " in failure.message:
            failure.say_more("", hint=f"{failure.hint}; or ask another node: --node {node}")
    return failure


@contextlib.contextmanager
def also_told(**facts: Any) -> Iterator[None]:
    """Facts that the JSON document of an error in the block contains."""
    try:
        yield
    except BaseException:
        _also.update(facts)
        raise


def pasteable(text: str, *more: str) -> str:
    """A text whose commands have the options of the call, and these in front."""
    call = replace(_call, front=(*_call.front, *more))
    if "londiste " not in text or not (call.front or call.behind):
        return text
    return hints.completed(text, call, lambda words: _lookup(_program, words))


def _lookup(group: click.Command, words: Sequence[str]) -> tuple[str, set[str]] | None:
    """The command that words begin with, and its options."""
    names: list[str] = []
    for word in words:
        if not isinstance(group, click.Group):
            break
        found = group.get_command(click.Context(group), word)
        if found is None:
            break
        names.append(word)
        group = found
    options = {option for one in group.params for option in one.opts}
    return (" ".join(names), options) if names else None


def report(error: LondisteError, exit_code: int) -> int:
    """Prints an error that ends the command: to stderr, and with ``--json`` as a document."""
    tell(error)
    _document(error, exit_code)
    return exit_code


def tell(error: LondisteError) -> None:
    """Prints an error to stderr, colour only on a terminal; in the background to the log."""
    if logcontext.is_detached():
        from londiste.daemon import loop

        loop.report(error)
        return
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    for label, text, shade in (
        ("error", error.message, "red"),
        ("detail", pasteable(error.detail), "yellow"),
        ("hint", pasteable(error.hint), "cyan"),
    ):
        if text:
            head = click.style(f"{label}:", fg=shade) if colour else f"{label}:"
            click.echo(f"{head} {phrase(text)}", err=True)


def _document(error: LondisteError, exit_code: int) -> None:
    if not _json_wanted:
        return
    document = Failure(
        error=phrase(error.message),
        detail=phrase(pasteable(error.detail)) or None,
        hint=phrase(pasteable(error.hint)) or None,
        exit_code=exit_code,
    )
    # Nobody may read the output any more.
    with contextlib.suppress(OSError):
        as_json({**document, **_also})
        sys.stdout.flush()


def phrase(text: str) -> str:
    """A sentence of Londiste in one line, with nouns that agree with their number.

    It shows no password of the call: a connection string may be given instead of a name.
    """
    for word, shown in _secret.items():
        text = text.replace(word, shown)
    return layout.singular(printable(text))


def printable(text: str) -> str:
    """One line without control characters, so that a name cannot write to the terminal."""
    return escaped(" ".join(part.strip() for part in text.splitlines() if part.strip()))


def unknown_command(
    words: Sequence[str], known: Iterable[str], group: str = "londiste"
) -> UsageError:
    """The error for words of which the first is no command of a group.

    Two words may mean one command: ``create root``.
    """
    names = list(known)
    plain = list(itertools.takewhile(lambda word: not word.startswith("-"), words[:2]))
    close = difflib.get_close_matches("-".join(plain), names, n=1, cutoff=0.8)
    close += difflib.get_close_matches(words[0], names, n=1, cutoff=_NEAR)
    hint = f"did you mean: {group} {close[0]}" if close else f"{group} --help lists the commands"
    meant = _OF_OTHERS.get(group, {}).get(words[0], hint)
    return UsageError(f"unknown command {words[0]}", hint=meant)


#: Likeness of a word to a name that it probably means, 0 to 1: abort and start have 0.6.
_NEAR = 0.65

_ABANDON = "londiste migrate finish --abandon keeps the old database; after the switch: "
#: Commands that other programs have, by group: what does that here.
_OF_OTHERS = {
    "londiste migrate": dict.fromkeys(
        ("abandon", "abort", "cancel", "rollback", "undo"),
        f"{_ABANDON}londiste migrate back",
    )
}


#: Options that all commands share, and that belong in front of them.
_OF_THE_PROGRAM = ("--set", "-c", "--config", "-q", "--quiet", "-v", "--verbose")


#: What the options of commands of Londiste 3 have become, by command and option.
_OF_LONDISTE_3 = {
    ("create-branch", "--sync-watermark"): "omit the option: a branch always reports its watermark",
    ("status", "--dead"): "londiste tag-dead NODE",
    ("change-provider", "--dead"): "londiste tag-dead NODE, then change-provider without it",
    ("takeover", "--target"): "londiste takeover NODE --node NAME",
    ("worker", "--reset"): "londiste worker --rewind",
    ("copy run", "-d"): "omit the option: londiste worker runs the copies",
    ("repair", "--sort-bufsize"): "omit the option: repair sorts no files",
    ("execute run", "--skip-non-existing"): "add this line to the script: --*-- Need-Table: NAME",
}


def _with_near(error: click.NoSuchOption) -> click.NoSuchOption:
    """The error without suggestions that have not much in common but their dashes."""
    names = {name.lstrip("-"): name for name in error.possibilities or ()}
    near = difflib.get_close_matches(error.option_name.lstrip("-"), names, cutoff=_NEAR)
    return click.NoSuchOption(
        error.option_name, possibilities=[names[name] for name in near], ctx=error.ctx
    )


def _from_click(error: click.ClickException) -> UsageError:
    if isinstance(error, click.NoSuchOption):
        error = _with_near(error)
    message = error.format_message().rstrip(".")
    if message:
        message = message[0].lower() + message[1:]
    command = "londiste"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx.command_path
    program, _, rest = command.partition(" ")
    if isinstance(error, click.NoSuchOption) and rest and error.option_name in _OF_THE_PROGRAM:
        # Instead of an option with a similar name.
        return UsageError(
            f"{command} has no option {error.option_name}",
            hint=f"write it before the command: {program} {error.option_name} … {rest}",
        )
    if isinstance(error, click.NoSuchOption) and (rest, error.option_name) in _OF_LONDISTE_3:
        return UsageError(
            f"{command} has no option {error.option_name}, which Londiste 3 had",
            hint=_OF_LONDISTE_3[rest, error.option_name],
        )
    return UsageError(message, hint=f"{command} --help shows the usage")
