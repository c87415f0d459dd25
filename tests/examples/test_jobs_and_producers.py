"""The worker and producer examples do what their headers describe, also after a kill."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

import londiste
from tests.examples.conftest import EXAMPLES, Example
from tests.support.suite.slow import first
from tests.support.ticking import Ticker
from tests.support.waiting import wait_for

Make = Callable[..., Example]
KILLED = -signal.SIGKILL


def test_workers_share_jobs_and_failed_ones_are_dead_letters_after_three_attempts(
    example: Make,
) -> None:
    jobs = example("work_queue")
    db = jobs.db
    jobs.run("londiste queue create")
    jobs.run("python")
    quick = ("--set", "poll_interval=0.1", "--set", "retry_seconds=0")
    # Both find no table at the same moment.
    with db.connect() as first, first.transaction(force_rollback=True):
        first.execute("create table public.job_results ()")
        one = jobs.start("python examples/work_queue.py work one &", *quick)
        two = jobs.start("python examples/work_queue.py work two &", *quick)
        waiting = "select count(*) from pg_locks where not granted"
        wait_for(lambda: db.value(waiting) == 2, what="two workers that begin")
    results = "select worker, job, result from job_results"
    with Ticker(db, "jobs"):
        assert jobs.run("python examples/work_queue.py submit square 12").out.startswith("job ")
        jobs.run("python examples/work_queue.py submit square 13 --in 60")
        with londiste.Producer(db.dsn, "jobs") as producer:
            producer.send("upper", "a")
            producer.send("square", "twelve")
            producer.send("dance", "waltz")
        wait_for(lambda: len(db.execute(results)) == 2, what="the results")
        failed = "select ev_failed_reason, ev_retry from pgq.failed_queue order by ev_data"
        wait_for(lambda: len(db.execute(failed)) == 2, what="the dead letters")
    (invalid, retries), (unknown, none) = db.execute(failed)
    assert "invalid literal for int() with base 10: 'twelve'" in invalid and retries == 2
    assert unknown == "no job is called dance" and none is None
    assert {(job, result) for _, job, result in db.execute(results)} == {
        ("square 12", "144"),
        ("upper a", "A"),
    }
    assert db.execute("select ev_data from pgq.delayed_event_list('jobs', 9)") == [("13",)]
    assert one.stop() == 0, one.said()
    assert two.stop() == 0, two.said()


@pytest.mark.slow
def test_a_killed_worker_goes_on_under_its_name_and_every_result_is_there_once(
    example: Make,
) -> None:
    jobs = example("work_queue")
    db = jobs.db
    jobs.run("londiste queue create")
    jobs.run("python")
    with londiste.Producer(db.dsn, "jobs") as producer:
        producer.send_many([("square", str(n)) for n in range(4)])
    jobs.tick("jobs")
    line = jobs.commands[0]
    killed = jobs.start_again(line, crash="consumer.after-effect:3")
    assert killed.wait() == KILLED
    results = "select job from job_results order by id"
    assert len(db.execute(results)) == 2
    again = jobs.start_again(line)
    wait_for(lambda: len(db.execute(results)) >= 4, what="the other results")
    assert again.stop() == 0
    assert db.execute(results) == [(f"square {n}",) for n in range(4)]
    assert "square 1 " not in again.said() and "square 2 " in again.said()


@pytest.mark.parametrize("dies", first([True, False]), ids=["killed", "standing-still"])
def test_the_job_of_a_worker_that_does_not_come_back_is_taken_over_and_has_one_result(
    example: Make, dies: bool
) -> None:
    jobs = example("long_jobs", TIMEOUT="100 milliseconds")
    db = jobs.db
    jobs.run("londiste queue create")
    jobs.run("python")
    line = jobs.commands[0]
    one = jobs.start("python examples/long_jobs.py work one")
    db.execute("select pgq.insert_event('long_jobs', 'take', '0.3')")
    jobs.tick("long_jobs")
    wait_for(lambda: "one: job 1, 0.3 seconds" in one.said(), what="the job")
    one.send(signal.SIGKILL if dies else signal.SIGSTOP)
    jobs.start_again(line.replace("work one", "work two"))
    results = "select job, worker from long_results"
    wait_for(lambda: db.execute(results), what="the result")
    if not dies:
        one.send(signal.SIGCONT)
        wait_for(lambda: "one: job 1 was taken over" in one.said(), what="the late worker")
    assert db.execute(results) == [(1, "two")]


def test_a_long_job_that_fails_is_a_dead_letter_after_three_attempts(example: Make) -> None:
    jobs = example("long_jobs")
    db = jobs.db
    jobs.run("londiste queue create")
    jobs.run("python")
    worker = jobs.start("python examples/long_jobs.py work one")
    db.execute("select pgq.insert_event('long_jobs', 'take', 'much')")
    with Ticker(db, "long_jobs"):

        def failed() -> bool:
            # Nobody wants to wait for the seconds between attempts.
            db.execute("update pgq.retry_queue set ev_retry_after = now()")
            return bool(db.value("select count(*) from pgq.failed_queue"))

        wait_for(failed, what="the dead letter")
    assert worker.said().count("failed: could not convert string to float: 'much'") == 3


def test_a_request_has_one_order_and_one_event_however_often_it_is_tried(example: Make) -> None:
    outbox = example("transactional_outbox")
    db = outbox.db
    outbox.run("londiste queue create")
    line = outbox.commands[0]
    first = outbox.run("python").out
    assert first == "request-1 is placed, its event is 1\n"
    assert outbox.run("python").out == first

    orders, events = "select request from placed_orders", "select ev_data from pgq.event_template"
    before = (db.execute(orders), len(db.execute(events)))
    assert before == ([("request-1",)], 1)
    # Killed with the order written and the event waiting: neither is there.
    blocker = db.connect(autocommit=False)
    blocker.execute("select * from pgq.insert_event_once('orders', 'request-2', 't', 'x')")
    process = outbox.start_again(line.replace("request-1", "request-2"))
    waiting = (
        "select 1 from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock' and query like '%insert_event_once%'"
    )
    wait_for(lambda: db.execute(waiting), what="the key")
    process.kill()
    blocker.rollback()
    wait_for(lambda: not db.execute(waiting), what="the end of the session")
    assert (db.execute(orders), len(db.execute(events))) == before
    outbox.start_again(line.replace("request-1", "request-2")).wait()
    assert len(db.execute(orders)) == len(db.execute(events)) == 2


def test_the_readme_has_every_example_and_each_needs_only_what_the_package_brings() -> None:
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    files = sorted(EXAMPLES.glob("*.py"))
    for file in files:
        text = file.read_text("utf-8")
        assert f"[{file.name}]({file.name})" in readme
        if "__londiste_handlers__" in text:
            assert f'handler_modules = ["{file.stem}"]' in text
        else:
            assert f"python examples/{file.name}" in text
        for word in ("londiste.pgq", "londiste.db", "tests."):
            assert word not in text, file
    assert len(files) == readme.count(".py](")
