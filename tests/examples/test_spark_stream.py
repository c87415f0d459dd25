"""The Spark example does what its header describes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.embedded.java import find_java
from tests.examples.conftest import Example


@pytest.mark.slow
@pytest.mark.spark
def test_a_second_run_shows_what_is_new(example: Callable[..., Example], tmp_path: Path) -> None:
    stream = example("spark_stream", JAVA_HOME=str(find_java()), LAKE=str(tmp_path / "lake"))
    stream.run("londiste queue create")
    stream.sql("create table fruit")
    stream.sql("create trigger")
    stream.sql("insert into fruit")
    stream.tick("shop")
    line = stream.commands[0]
    done = stream.run("python")
    assert "kiwi" in done.out and "insert" in done.out
    stream.db.execute("update fruit set name = 'plum'")
    stream.tick("shop")
    stream.commands.append(line)
    done = stream.run("python")
    assert done.out.count("kiwi") == done.out.count("plum") == 1


@pytest.mark.slow
@pytest.mark.spark
def test_sums_follow_a_table(example: Callable[..., Example], tmp_path: Path) -> None:
    totals = example("spark_totals", JAVA_HOME=str(find_java()), LAKE=str(tmp_path / "lake"))
    totals.run("londiste queue create")
    totals.sql("create table orders")
    totals.sql("create trigger")
    totals.sql("insert into orders")
    totals.tick("shop")
    line = totals.commands[0]
    assert totals.run("python").out.splitlines()[-2:] == ["ann 2 15.00", "bob 1 20.00"]
    totals.db.execute(
        "update orders set amount = 7 where id = 3; delete from orders where id = 2;"
        " update orders set customer = 'bob' where id = 1;"
        " insert into orders values (5, 'cid', 1)"
    )
    totals.tick("shop")
    totals.commands.append(line)
    told = totals.run("python").out.splitlines()[-3:]
    assert told == ["ann 1 7.00", "bob 1 10.00", "cid 1 1.00"]
