"""``londiste dispatch``: the table dispatcher, which writes into tables or files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from londiste.cli import output
from londiste.cli.consumer_cli import Program, command
from londiste.errors import BadOption
from londiste.metrics.endpoint import listening
from londiste.metrics.tally import ConsumerTally, inherited
from londiste.tools.dispatch.program import Dispatcher

if TYPE_CHECKING:
    from londiste.consumer import Consumer, ConsumerSettings
    from londiste.tools.dispatch.files import FileDispatcher


class DispatchProgram(Program):
    """One call of ``londiste dispatch``."""

    def act(self, consumer: Consumer, settings: ConsumerSettings) -> None:
        """What the options ask for, of the tables or of the files."""
        assert isinstance(consumer, Dispatcher)
        worker = consumer.into_files()
        if worker is None:
            if self.given["files"]:
                raise BadOption(
                    "--files requires target_path", hint="set target_path in the settings"
                )
            super().act(consumer, settings)
            for line in consumer.copy_report:
                output.message(line)
            return
        with worker:
            self._of_files(worker, settings)

    def _of_files(self, worker: FileDispatcher, settings: ConsumerSettings) -> None:
        given = self.given
        who = f"consumer {settings.consumer} of queue {settings.queue_name}"
        if given["files"]:
            output.exact("".join(f"{path}\n" for _, path in worker.files()))
        elif given["rewind"] or given["reset"] or given["at"] is not None or given["like"]:
            raise BadOption(
                "--rewind and --reset do not work for files: their position is stored in their"
                " directory",
                hint="start with another target_path",
            )
        elif given["registering"]:
            worker.check()
            output.message(f"{who}: {worker.register()} tables registered")
        elif given["unregister"]:
            output.message(f"{who}: {worker.unregister()} tables unregistered, files kept")
        elif given["pause"]:
            output.message(f"{who}: {worker.pause(True)} tables paused")
        elif given["resume"]:
            output.message(f"{who}: {worker.pause(False)} tables resumed")
        else:
            worker.check()
            once = given["once"]
            with (
                listening(settings, once=once) as endpoint,
                self.context.process(
                    settings,
                    pid=None if once else settings.pidfile,
                    background=self.daemon.background and not once,
                    announced=not once,
                ) as signals,
            ):
                if once:
                    worker.once(lambda: signals.stopping)
                else:
                    tally = ConsumerTally("dispatch", inherited())
                    worker.observe = tally.batch
                    if endpoint is not None:
                        from londiste.metrics.daemons import of_lake

                        endpoint.serve(of_lake(worker.settings, tally))
                    worker.run(signals)


dispatch = click.option(
    "--files", is_flag=True, help="With target_path: print the current files, then exit."
)(
    command(
        Dispatcher,
        name="dispatch",
        keys={
            "--queue": "queue_name",
            "--consumer": "consumer_name",
            "--target-db": "target_db",
            "--target-path": "target_path",
            "--handler": "handler",
            "--engine": "engine",
            "--with-copy": "with_copy",
        },
        program=DispatchProgram,
    )
)
