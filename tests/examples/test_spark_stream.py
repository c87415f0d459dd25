"""The example of Spark does what its top says."""

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
