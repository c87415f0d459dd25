"""Handler ``shard``: keeps one part of a table, by a hash of a column.

A part is a row filter and works like ``--where`` in copy, replay and compare.  With another number
of parts rows move, so the table is copied again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from londiste.db.names import quote
from londiste.errors import BadOption
from londiste.handlers.base import Handler, TableRules, option


@dataclass(frozen=True)
class Shard(Handler):
    """Keeps the rows whose hash modulo the number of parts is the number of this node's part.

    Rows without a hash, whose key is NULL, are in part 0.
    """

    NAME: ClassVar[str] = "shard"
    ALIASES: ClassVar[tuple[str, ...]] = ("part",)
    OF_LONDISTE_3: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("nr", "count"),
        "with the node's numbers of partconf.conf: --handler shard --handler-arg key=…"
        " --handler-arg nr=0 --handler-arg count=4 --handler-arg hash_func=partconf.get_hash_raw;"
        " on the root without --handler",
    )

    nr: int = option(help="number of this node's part, from 0")
    count: int = option(help="number of parts: 1, 2, 4, 8, …")
    key: str = option("", help="column to hash")
    hash_key: str = option("", help="alias of key")
    hash_func: str = option(
        "", help="immutable hash function of the column (default: PostgreSQL's hash of its text)"
    )
    hash_expr: str = option("", help="SQL expression of the hash, instead of key")
    disable_replay: bool = option(False, help="the table is kept on no row of this node")
    ignore_truncate: bool = option(False, help="ignore TRUNCATE events on this node")

    def wants(self) -> TableRules:
        if self.count < 1 or self.count & (self.count - 1):
            raise BadOption(
                f"handler shard: count={self.count} is not a power of two",
                hint="use --handler-arg count=4",
            )
        if not 0 <= self.nr < self.count:
            raise BadOption(
                f"handler shard: nr={self.nr} is out of range for count={self.count}",
                hint=f"use a number from 0 to {self.count - 1}: --handler-arg nr=0",
            )
        # A hash of NULL is NULL: those rows are part 0.
        where = f"(coalesce({self._hash()}, 0) & {self.count - 1}) = {self.nr}"
        return TableRules(
            stored=not self.disable_replay,
            where=where,
            text_of="" if self.hash_func else self.key or self.hash_key,
            ignore_truncate=self.ignore_truncate,
        )

    def _hash(self) -> str:
        given = [one for one in (self.key, self.hash_key, self.hash_expr) if one]
        if len(given) != 1:
            raise BadOption(
                "handler shard requires one of key and hash_expr",
                hint="use --handler shard --handler-arg key=COLUMN"
                f" --handler-arg nr={self.nr} --handler-arg count={self.count}",
            )
        if self.hash_expr:
            return f"({self.hash_expr})"
        column = quote(self.key or self.hash_key)
        if self.hash_func:
            return f"{self.hash_func}({column})"
        return f'hashtextextended({column}::text collate "C", 0)'
