"""Defects of the program that are planted to see whether the machine catches them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from londiste.selftest.registry import Registry

DEFECTS = Registry()


@dataclass(frozen=True)
class Defect:
    """promise -- which one it breaks; sql -- function, text and what replaces it.

    faults, operations -- what the lives need to contain for it to matter; empty: anything.
    """

    promise: str
    sql: tuple[tuple[str, str, str], ...] = ()
    operation: str = ""
    fault: str = ""
    shape: str = ""


def defect(name: str, promise: str, **more: Any) -> Callable[..., Any]:
    """Registers a function that changes the program of the process that calls it."""
    return DEFECTS.add(name, more=Defect(promise, **more))


def in_sql(name: str, promise: str, *sql: tuple[str, str, str], **more: Any) -> None:
    """Registers a change of functions: name, regular expression, and what replaces it."""
    defect(name, promise, sql=sql, **more)(lambda: None)
