"""Execution engines for bulk work: local processes or Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from londiste.engine.base import Engine
from londiste.errors import BadOption

if TYPE_CHECKING:
    from londiste.engine.local.engine import LocalEngine

NAMES = ("spark", "local")


def create(name: str, spark_settings: Mapping[str, str] | None = None) -> Engine:
    """The engine of this name; starts nothing, the first job does.

    spark_settings -- ``spark.*`` keys, for the Spark engine.

    Raises BadOption for another name.
    """
    # Imported on demand: the local engine works on hosts without Java or pyspark.
    if name == "local":
        from londiste.engine.local.engine import LocalEngine

        return LocalEngine()
    if name == "spark":
        from londiste.engine.spark.engine import SparkEngine

        return SparkEngine(spark_settings or {})
    raise BadOption(f"engine {name}: unknown", hint=f"set engine to one of: {', '.join(NAMES)}")


def by_size(
    name: str, spark_settings: Mapping[str, str] | None, threshold: int, *, ahead: int = 0
) -> Engine:
    """The engine of this name for tables of ``threshold`` bytes and more, local below.

    ahead -- processes of the local engine to start now, where that costs little.
    """
    from londiste.engine.local.engine import LocalEngine

    local = LocalEngine()
    if ahead > 1:
        local.prepare(ahead)
    if name == "local":
        return local
    from londiste.engine.size_router import BySize

    return BySize(local, begun_locally(name, spark_settings, threshold, local=local), threshold)


def begun_locally(
    name: str,
    spark_settings: Mapping[str, str] | None,
    threshold: int,
    *,
    local: LocalEngine | None = None,
    tell: Callable[[str], None] | None = None,
) -> Engine:
    """The engine of this name; Spark takes over what this host has begun.

    threshold -- with 0 the first task waits for Spark.
    tell -- gets the steps of the start.
    """
    if name != "spark" or threshold == 0:
        return create(name, spark_settings)
    from londiste.engine.local.engine import LocalEngine
    from londiste.engine.local_first import WORTH, WORTH_HERE, LocalFirst
    from londiste.engine.spark.engine import SparkEngine

    spark = SparkEngine(spark_settings or {})
    worth = WORTH_HERE if spark.is_here else WORTH
    return LocalFirst(local or LocalEngine(), spark, worth, tell)


__all__ = ["NAMES", "Engine", "begun_locally", "by_size", "create"]
