"""Command line of a consumer program: ``MyConsumer.main()``.

The options are those of Londiste 3's scripts: a settings file in front, ``-d -r -s -k`` for the
daemon, ``--register`` and ``--unregister``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from londiste import settings as settings_module
from londiste.cli import options, output
from londiste.cli.errors import run
from londiste.daemon.pidfile import running
from londiste.errors import BadOption

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from londiste.consumer import Consumer, ConsumerSettings


def main(kind: type[Consumer], argv: Sequence[str] | None = None) -> None:
    """Runs the program and ends the process with the exit code of its result."""
    name = Path(sys.argv[0]).name
    sys.exit(run(command(kind), list(sys.argv[1:] if argv is None else argv), name=name))


def command(
    kind: type[Consumer],
    *,
    name: str = "",
    keys: Mapping[str, str] | None = None,
    variants: Mapping[str, type[Consumer]] | None = None,
    program: type[Program] | None = None,
) -> click.Command:
    """The command of a consumer class.

    keys -- option -> setting: settings that get an option of their own.
    variants -- what ``--delivery`` chooses from instead of ``kind``; the same settings.
    program -- what a call does, where that is more than with every consumer.
    """

    def body(**given: Any) -> None:
        chosen = (variants or {}).get(given.pop("delivery", None) or "", kind)
        own = {key: given.pop(key) for key in (keys or {}).values()}
        (program or Program)(chosen, own, **given).run()

    text = (kind.__doc__ or "").strip().splitlines()
    help_text = text[0] if text else f"Consumer {kind.name or kind.__name__}."
    result = click.command(
        name=name or kind.name or kind.__name__,
        help=help_text,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )(body)
    fields = kind.settings_class.model_fields
    own = [_of_setting(option, key, fields[key]) for option, key in (keys or {}).items()]
    if variants:
        own.append(
            click.option(
                "--delivery", type=click.Choice(list(variants)), help="Delivery guarantee."
            )
        )
    for option in [*own, *_OPTIONS, *options.DAEMON_FLAGS]:
        result = option(result)
    return result


def _of_setting(option: str, key: str, field: FieldInfo) -> Callable[[Any], Any]:
    if field.annotation is bool:
        return click.option(option, key, is_flag=True, default=None, help=field.description)
    metavar = "NAME" if "name" in key else "VALUE"
    return click.option(option, key, metavar=metavar, help=field.description)


_OPTIONS = (
    click.argument("file", metavar="[FILE]", required=False),
    click.option("-c", "--config", metavar="FILE", help="Settings file: TOML, or INI."),
    click.option("-q", "--quiet", is_flag=True, help="Print warnings and errors only."),
    click.option("-v", "--verbose", count=True, help="More log output (-vv: debug)."),
    click.option(
        "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one setting."
    ),
    click.option("--db", metavar="DSN", help="Connection string of the queue's database."),
    click.option("--once", is_flag=True, help="Process batches until none is left, then exit."),
    click.option(
        "--register", "registering", is_flag=True, help="Register the consumer, then exit."
    ),
    click.option(
        "--at", "at", type=int, metavar="TICK", help="With --register: start after this tick."
    ),
    click.option(
        "--like", metavar="CONSUMER", help="With --register: start at the position of CONSUMER."
    ),
    click.option(
        "--unregister", is_flag=True, help="Drop the consumer and its position, then exit."
    ),
    click.option(
        "--pause", is_flag=True, help="Pause the consumer, wherever it runs, until --resume."
    ),
    click.option("--resume", is_flag=True, help="Resume a paused consumer."),
    click.option(
        "--rewind",
        is_flag=True,
        help="Move the queue's position back to the stored one, then exit.",
    ),
    click.option("--reset", is_flag=True, help="Store the queue's position, then exit."),
    click.option("--config-template", is_flag=True, help="Print an annotated settings file."),
)


class Program:
    """One call of a consumer's program."""

    def __init__(self, kind: type[Consumer], own: Mapping[str, Any], **given: Any) -> None:
        self.kind = kind
        self.own = {key: value for key, value in own.items() if value is not None}
        self.given = given
        self.daemon = options.DaemonCall(
            *(given[flag] for flag in ("daemon", "reload", "stop", "kill"))
        )
        above = click.get_current_context().find_object(options.Context)
        file = given["config"] or given["file"]
        self.context = options.Context.make(
            file or (str(above.config) if above and above.config else None),
            quiet=given["quiet"] or (above is not None and above.quiet),
            verbose=given["verbose"] or (above.verbose if above else 0),
            overrides=given["overrides"],
            node=above.node if above else None,
        )
        if above is not None and not file:
            self.context = replace(self.context, implied=above.implied)
        if above is not None:
            self.own = {**above.overrides, **self.own}

    def read(self) -> ConsumerSettings:
        """The settings: class, then file, environment, ``--set``, ``--db``."""
        db = {"db": self.given["db"]} if self.given["db"] else {}
        found = settings_module.load(
            self.kind.settings_class,
            self.context.config,
            {**self.own, **self.context.overrides, **db},
            defaults=self.kind.defaults(),
            node=self.context.node,
            variable=self.context.variable(self.context.node),
        )
        return self.context.in_background(found, self.daemon)

    def run(self) -> None:
        """Does what the options ask for."""
        given = self.given
        if given["config_template"]:
            click.echo(settings_module.annotated(self.kind.settings_class))
            return
        settings = self.read()
        if self.daemon.signalled(settings.pidfile, by_run=self.context.node is not None):
            return
        # What was read already serves the start, so that its warnings are printed once.
        read_already = [settings]
        consumer = self.kind(settings=lambda: read_already.pop() if read_already else self.read())
        self.act(consumer, settings)

    def act(self, consumer: Consumer, settings: ConsumerSettings) -> None:
        """What the options ask for that is not about the process."""
        given = self.given
        who = f"consumer {settings.consumer} of queue {settings.queue_name}"
        if given["registering"]:
            new = consumer.register(given["at"], like=given["like"])
            output.message(f"{who} {'registered' if new else 'is already registered'}")
        elif given["unregister"]:
            there = consumer.unregister()
            output.message(f"{who} {'unregistered' if there else 'is not registered'}")
        elif given["pause"]:
            done = consumer.pause()
            output.message(f"{who} {'paused' if done else 'is already paused'}")
        elif given["resume"]:
            done = consumer.resume()
            output.message(f"{who} {'resumed' if done else 'is not paused'}")
        elif given["rewind"]:
            output.message(f"{who}: queue position set to tick {consumer.rewind()}")
        elif given["reset"]:
            output.message(f"{who}: stored position set to tick {consumer.reset()}")
        else:
            self._work(consumer, settings)

    def _work(self, consumer: Consumer, settings: ConsumerSettings) -> None:
        once, background = self.given["once"], self.daemon.background and not self.given["once"]
        if background and settings.pidfile and running(settings.pidfile) is None:
            # Errors at the start are printed here, not only in the log.
            consumer.try_out()
        with (
            _counted(consumer, settings, once=once) as serve,
            self.context.process(
                settings,
                pid=None if once else settings.pidfile,
                background=background,
                stop_timeout=settings.stop_timeout,
                break_off_on_second=True,
                announced=not once,
            ) as signals,
        ):
            if once:
                consumer.run_once(signals)
            else:
                serve()
                consumer.run(signals)


@contextlib.contextmanager
def _counted(
    consumer: Consumer, settings: ConsumerSettings, *, once: bool
) -> Iterator[Callable[[], None]]:
    """Counts the batches for an endpoint, or for ``londiste run``; what answers requests.

    Without either of them nothing is imported.
    """
    if once or not (settings.metrics or "LONDISTE_TALLY_FILE" in os.environ):
        yield lambda: None
        return
    try:
        from londiste.metrics.endpoint import listening
        from londiste.metrics.tally import ConsumerTally, inherited
    except ImportError:
        raise BadOption(
            "metrics: not a part of londiste4-client", hint='pip install "londiste4[web]"'
        ) from None
    tally = ConsumerTally(consumer.listed_as.value, inherited())
    consumer._observe = tally.batch
    with listening(settings) as endpoint:

        def serve() -> None:
            if endpoint is None:
                return
            from londiste.metrics.daemons import of_consumer

            names = {settings.consumer, f"{settings.consumer}.{settings.subconsumer_name}"}
            endpoint.serve(
                of_consumer(
                    lambda: consumer.settings.db,
                    settings.queue_name,
                    names.__contains__,
                    tally,
                    settings.metrics_max_lag,
                )
            )

        yield serve
