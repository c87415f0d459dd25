"""What operators do: each kind gives the commands of one operation, in their order.

A kind says when it is possible, what is decided beforehand, and how it changes the model
(``Change.apply``).  A command is (node, words); a function is something that the operator does by
hand, given the cast.
"""

from __future__ import annotations

from tests.nemesis.operations import (
    lost_root,
    merging,
    migrating,
    nodes,
    restoring,
    subsets,
    tables,
)
from tests.nemesis.operations.change import OPERATIONS

__all__ = [
    "OPERATIONS",
    "lost_root",
    "merging",
    "migrating",
    "nodes",
    "restoring",
    "subsets",
    "tables",
]
