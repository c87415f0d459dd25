"""Hints of a lake and of dispatch into files name their own settings, not options of a query."""

from __future__ import annotations

import pytest

from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Place
from londiste.errors import LondisteError, StateError, TransientError
from londiste.lake import checks, origin
from londiste.lake.versions import Version

AGAIN = "use another target_path"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("start with another checkpoint, and reload the target", AGAIN),
        ("start with startingOffsets=latest", AGAIN),
        ("start with another checkpoint, or read the rows with onSnapshotLost=again", "repeat the"),
        ("keep it open until the job ends: with londiste.spark.snapshot(…)", "repeat the command"),
        ("restart the query: it registers the consumer again", "restart the process: it"),
        ("use a separate consumer: .option('consumer', …)", "set another consumer_name"),
        ("use payload=json, or replace the table's trigger", "replace the table's trigger"),
        ('raise the log level, or run without Spark: engine = "local"', "raise the log level"),
        ("start the ticker: londiste ticker", "start the ticker: londiste ticker"),
    ],
)
def test_hints_about_positions_name_no_option_of_a_query(given: str, wanted: str) -> None:
    assert checks.position_hint(given, AGAIN).startswith(wanted)
    assert "engine" not in checks.position_hint(given, AGAIN)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("history", "read the rows again: londiste lake resync public.t"), ("append", "start with")],
)
def test_a_lost_position_is_read_again_where_the_mode_can(mode: str, wanted: str) -> None:
    hint = "a new query with mode=snapshot-then-changes and another checkpoint"
    assert checks.hint_for(TableName("public", "t"), mode, hint).startswith(wanted)


@pytest.mark.parametrize(
    ("mode", "detail", "wanted"),
    [
        ("append", "OSError: [Errno 28] No space left on device", "df -h '/la ke/public.t'"),
        ("state", "Read-only file system (os error 30)", "make the directory writable: /la ke/"),
        (
            "state",
            "[PATH_NOT_FOUND] Path does not exist",
            "or read the rows again: londiste lake r",
        ),
        ("history", "[FAILED_READ_FILE.FILE_NOT_EXIST] Error", "restore the missing files"),
        ("state", "the server: No space left on device", "as it was"),
    ],
)
def test_an_error_of_the_directory_says_what_works(mode: str, detail: str, wanted: str) -> None:
    error = LondisteError("Spark: job failed", detail=detail, hint="as it was")
    place = Place("/la ke/public.t")
    assert wanted in checks.hint_of(TableName("public", "t"), mode, place, error)
    assert "resync" not in checks.hint_of(TableName("public", "t"), "history", place, error)


@pytest.mark.parametrize(
    ("mode", "other", "refused"),
    [
        ("state", None, TransientError),
        ("history", None, TransientError),
        ("state", "the queue was created again", None),
        ("history", "the queue was created again", StateError),
    ],
)
def test_smaller_ticks_follow_in_a_state_of_another_queue_alone(
    mode: str, other: str | None, refused: type[LondisteError] | None
) -> None:
    name = TableName("public", "t")
    version = Version(1, str(name), mode, "changes", ("id",), 1, {"tick": 32})
    checks.require_later(name, version, "q", 33, None)
    if refused is None:
        checks.require_later(name, version, "q", 6, other)
    else:
        with pytest.raises(refused):
            checks.require_later(name, version, "q", 6, other)


@pytest.mark.parametrize(
    ("here", "lost", "wrong"),
    [
        ("queue q of database d", True, False),
        ("queue q of database e", True, True),
        ("queue q of database e", False, False),
        ("queue q", True, False),
        ("queue p", False, True),
        ("", True, False),
    ],
)
def test_when_a_directory_is_of_another_queue(here: str, lost: bool, wrong: bool) -> None:
    assert origin.differs("queue q of database d", here, lost=lost) is wrong
    # Commits of earlier releases name no queue.
    assert origin.differs("", here, lost=lost) is (lost and here != "")
