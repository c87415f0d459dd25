"""The consumer examples do what their headers describe, also after a kill."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Callable

import pytest

import londiste
from tests.examples.conftest import EXAMPLES, Example
from tests.examples.smtp_sink import smtp_sink
from tests.fixtures.cluster import Database
from tests.support.ticking import Ticker
from tests.support.waiting import wait_for

Make = Callable[..., Example]
KILLED = -signal.SIGKILL


def send(example: Example, queue: str, *rows: tuple[str | None, ...]) -> None:
    """Sends events in one batch."""
    with londiste.Producer(example.db.dsn, queue) as producer:
        producer.send_many(rows)
    example.tick(queue)


def test_welcome_works_on_an_empty_database_with_the_three_commands_of_the_readme(
    example: Make, database: Database
) -> None:
    welcome = example("welcome", db=database)
    (block,) = re.findall(r"(?s)```sh\n(.*?)```", (EXAMPLES / "README.md").read_text("utf-8"))
    export, *lines = block.splitlines()
    assert export.startswith('export LONDISTE_DB="')
    welcome.commands[:0] = lines
    welcome.run("londiste queue install")
    ticker = welcome.start("londiste ticker &")
    welcome.run("londiste queue create")
    welcome.run("python", LONDISTE_POLL_INTERVAL="0.1")
    process = welcome.start("python")
    welcome.sql("select pgq.insert_event")
    wait_for(lambda: "welcome, Anna\n" in process.said(), what="the welcome")
    assert process.stop() == 0
    assert ticker.stop() == 0


def test_the_row_counter_counts_every_change_once_wherever_it_is_killed(example: Make) -> None:
    counter = example("row_counter")
    db = counter.db
    (trigger,) = re.findall(r"(?s)create trigger .*?;", counter.head)
    db.execute("create table orders (id int primary key, note text);" + trigger)
    counter.run("londiste queue create")
    counter.run("python")
    db.execute("insert into orders select n, 'x' from generate_series(1, 7) n")
    db.execute("update orders set note = 'y' where id > 4")
    db.execute("delete from orders where id = 1")
    counter.tick("changes")
    stored = "select operation, changes from row_counts where table_name = 'public.orders'"

    line = counter.commands[0]
    assert counter.start_again(line, crash="consumer.before-commit").wait() == KILLED
    assert db.execute(stored) == []
    assert counter.start_again(line, crash="consumer.after-finish").wait() == KILLED
    first = {"insert": 7, "update": 3, "delete": 1}
    assert dict(db.execute(stored)) == first

    process = counter.start("python")
    db.execute("insert into orders values (8)")
    counter.tick("changes")
    wait_for(lambda: dict(db.execute(stored)) == {**first, "insert": 8}, what="the next count")
    assert process.said().count("public.orders insert +1\n") == 1
    assert process.stop() == 0


def test_the_queue_copier_copies_every_event_once_wherever_it_is_killed(
    example: Make, new_database: Callable[..., Database]
) -> None:
    target = new_database()
    copier = example("queue_copier", LONDISTE_TARGET_DB=target.dsn)
    for _ in range(3):
        copier.run("londiste queue")
    copier.run("python")
    rows = [("t", str(n), "one", None, "", "it's") for n in range(5)]
    send(copier, "orders", *rows)

    def copied() -> list[tuple[str, ...]]:
        (template,) = target.execute("select queue_data_pfx from pgq.queue")
        return target.execute(
            f"select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
            f" from {template[0]} order by ev_id"
        )

    line = copier.commands[0]
    assert copier.start_again(line, crash="consumer.before-commit").wait() == KILLED
    assert copied() == []
    assert copier.start_again(line, crash="consumer.after-commit").wait() == KILLED
    assert copied() == rows
    process = copier.start("python")
    send(copier, "orders", ("t", "last"))
    wait_for(lambda: len(copied()) > 5, what="the next batch")
    assert copied() == [*rows, ("t", "last", None, None, None, None)]
    assert process.stop() == 0


def mail(to: str, subject: str = "Hello") -> tuple[str, str]:
    return "mail", json.dumps({"to": to, "subject": subject, "text": f"Dear {to}\n."})


def test_a_killed_email_sender_repeats_at_most_the_mail_at_hand_with_its_message_id(
    example: Make,
) -> None:
    sender = example("email_sender")
    sender.run("londiste queue create")
    sender.run("python")
    send(sender, "mails", mail("a@x.example"), mail("b@x.example"), mail("c@x.example"))
    (line,) = (one for one in sender.commands if "smtp_host" in one)
    with smtp_sink() as sink:
        line = line.replace("localhost", "127.0.0.1").replace("=25", f"={sink.port}")
        # Killed when the server has the second mail and nothing says so in the database.
        process = sender.start_again(line, crash="consumer.after-effect:2")
        assert process.wait() == KILLED
        assert [mail["To"] for mail in sink.mails] == ["a@x.example", "b@x.example"]
        process = sender.start_again(line)
        wait_for(lambda: len(sink.mails) >= 4, what="the other mails")
        assert process.stop() == 0
    times = Counter(mail["Message-ID"] for mail in sink.mails)
    assert [mail["To"][0] for mail in sink.mails] == ["a", "b", "b", "c"]
    assert list(times.values()) == [1, 2, 1]
    assert all(re.fullmatch(r"<mails\.\d+@example\.com>", name) for name in times)


@pytest.mark.slow
def test_mails_that_are_refused_for_now_come_again_and_others_are_dead_letters_with_the_reason(
    example: Make,
) -> None:
    sender = example("email_sender")
    sender.run("londiste queue create")
    sender.run("python")
    send(
        sender,
        "mails",
        mail("gone@x.example"),
        mail("busy@x.example"),
        ("mail", "no JSON"),
        mail("a@x.example, b@x.example"),
        mail("c@x.example", "two\nlines"),
    )
    with smtp_sink() as sink, Ticker(sender.db, "mails"):
        port = f"smtp_port={sink.port}"
        process = sender.start("python", "--set", port, "--set", "retry_seconds=0")
        wait_for(lambda: sink.mails, what="the mail that was refused at first")
        assert process.stop() == 0
    assert sink.tried == {"gone@x.example": 1, "busy@x.example": 2}
    said = sender.run("londiste queue dead list").out
    reasons = dict(sender.db.execute("select ev_data, ev_failed_reason from pgq.failed_queue"))
    assert [reason.split(":")[0] for reason in reasons.values()].count("not a mail") == 3
    assert reasons[mail("gone@x.example")[1]] == "550 5.1.1 no such mailbox"
    assert "550 5.1.1 no such mailbox" in " ".join(said.split())


@pytest.mark.slow
def test_without_a_mail_server_mails_wait_and_are_dead_letters_after_the_attempts(
    example: Make,
) -> None:
    sender = example("email_sender")
    sender.run("londiste queue create")
    sender.run("python")
    with smtp_sink() as sink:
        nobody = f"smtp_port={sink.port}"
    send(sender, "mails", mail("a@x.example"))
    with Ticker(sender.db, "mails"):
        settings = ["--set", nobody, "--set", "retry_seconds=0", "--set", "max_attempts=2"]
        process = sender.start("python", *settings)
        dead = "select ev_failed_reason, ev_retry from pgq.failed_queue"
        wait_for(lambda: sender.db.execute(dead), what="the dead letter")
        assert process.stop() == 0
    ((reason, retry),) = sender.db.execute(dead)
    assert "refused" in reason and retry == 1
