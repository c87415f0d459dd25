"""The zoo of tables: each shape has columns of its own, keys of its own, and values that hurt."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

#: Column -> expression of SQL.
Values = dict[str, str]

#: Texts that programs get wrong.
TEXTS = (
    "",
    "NULL",
    "\\N",
    "\\.",
    "it's",
    'say "x"',
    "tab\there",
    "line\nbreak\r",
    "back\\slash\\",
    "é漢字🙂",
    "a&b=c%20+d",
    "{}",
    "--",
    "$$",
    " lead and trail ",
)
#: In every text: no output of the program may contain it.
MARK = "qz7value"


def lit(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def text(chance: random.Random) -> str:
    """Some text, or NULL."""
    if chance.random() < 0.1:
        return "null"
    return lit(MARK + chance.choice(TEXTS) + str(chance.randint(0, 99)))


@dataclass(frozen=True)
class Shape:
    """How a table looks.

    ddl -- creates it; {t} is its name, {n} its number.
    key -- the columns of the key, for a number; rest -- values for the others.
    options -- of add-table on the root; keyless -- has no key to move.
    swap -- a column with a unique constraint whose values two rows may exchange.
    sub -- creates it on subscribers, where it differs.
    """

    name: str
    ddl: str
    key: Callable[[int], Values]
    rest: Callable[[random.Random], Values]
    weight: float = 1.0
    options: tuple[str, ...] = ()
    keyless: bool = False
    swap: str = ""
    sub: str = ""
    forms: tuple[str, ...] = ("row", "statement", "auto")
    quoted: bool = False


SHAPES: dict[str, Shape] = {}


def shape(name: str, ddl: str, key: object, rest: object, **more: object) -> None:
    SHAPES[name] = Shape(name, ddl, key, rest, **more)  # type: ignore[arg-type]


shape(
    "plain",
    "create table {t} (id int primary key, v text)",
    lambda k: {"id": str(k)},
    lambda c: {"v": text(c)},
    weight=2,
)
shape(
    "composite",
    "create table {t} (n numeric, b text, a int, j jsonb, primary key (a, b))",
    lambda k: {"a": str(k % 7), "b": lit(f"k{k}'\\")},
    lambda c: {
        "n": c.choice(["null", "1.50", "'NaN'", "1e-30", "-123456789012345678901234567890.5"]),
        "j": c.choice(["null", "'null'", """'{"a": [1, "é\\\\"]}'""", "'1.0'"]),
    },
    weight=2,
)
shape(
    "types",
    "create table {t} (id bigint primary key, at timestamptz, d date, i interval, b bytea, u uuid,"
    " ip inet, f float8, r real, ok boolean, words text[], m money, t time, tz timetz, bits bit(3),"
    ' box box, c "char")',
    lambda k: {"id": str(k * 4_000_000_000)},
    lambda c: {
        "at": c.choice(["'2024-02-03 04:05:06.789+02'", "'infinity'", "'0044-03-15 12:00 BC'"]),
        "d": c.choice(["'2024-02-03'", "'-infinity'", "null"]),
        "i": c.choice(["'1 mon -2 days 03:04:05.6'", "'-1 year'", "null"]),
        "b": c.choice(["'\\x00ff5c27'", "''", "null"]),
        "u": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "ip": c.choice(["'::1/128'", "'10.0.0.0/8'"]),
        "f": c.choice(["0.1", "'-0'", "'NaN'", "1e308", "0.30000000000000004"]),
        "r": c.choice(["0.1", "1e-37", "'Infinity'"]),
        "ok": c.choice(["true", "false", "null"]),
        "words": c.choice(["'{}'", "array['a,b','',null,'\"']", "null", "'{{a},{b}}'"]),
        "m": c.choice(["12.34::numeric::money", "null"]),
        "t": "'24:00'",
        "tz": "'09:35:06+05:30'",
        "bits": "B'101'",
        "box": "'(1,1),(0,0)'",
        "c": c.choice(["'x'", "''"]),
    },
)
shape(
    "quoted",
    'create table {t} ("Order" int, "we""ird.col" text, "select" text, primary key ("Order"))',
    lambda k: {'"Order"': str(k)},
    lambda c: {'"we""ird.col"': text(c), '"select"': text(c)},
    quoted=True,
)
shape(
    "textkey",
    "create table {t} (k text primary key, v int, w varchar(200))",
    lambda k: {"k": lit(f"{TEXTS[k % len(TEXTS)]}{k}")},
    lambda c: {"v": str(c.randint(-9, 9)), "w": text(c)},
)
shape(
    "generated",
    "create table {t} (id int generated always as identity primary key, k int unique, a int,"
    " twice int generated always as (a * 2) stored, made timestamptz not null default now())",
    lambda k: {"k": str(k)},
    lambda c: {"a": str(c.randint(0, 1000))},
    swap="a",
)
shape(
    "toast",
    "create table {t} (id int primary key, big text, small int);"
    " alter table {t} alter big set storage external",
    lambda k: {"id": str(k)},
    lambda c: {
        **(
            {"big": f"repeat('{c.choice('abc')}', {c.randint(3000, 9000)})"}
            if c.random() < 0.4
            else {}
        ),
        "small": str(c.randint(0, 99)),
    },
)
shape(
    "custom",
    "create type {t}_mood as enum ('sad', 'so so', 'happy');"
    " create domain {t}_small as int check (value < 1000);"
    " create type {t}_pair as (a int, b text);"
    " create table {t} (id {t}_small primary key, m {t}_mood, p {t}_pair, r int4range,"
    " ps {t}_pair[])",
    lambda k: {"id": str(k)},
    lambda c: {
        "m": c.choice(["null", "'sad'", "'so so'", "'happy'"]),
        "p": c.choice(["null", "'(1,\"a,b\")'", "'(,)'"]),
        "r": c.choice(["'[1,5)'", "'empty'", "'(,3]'"]),
        "ps": c.choice(["null", "'{}'", "array[row(1,'x')::{t}_pair]"]),
    },
)
shape(
    "partitioned",
    "create table {t} (id int primary key, v text) partition by range (id);"
    " create table {t}_a partition of {t} for values from (minvalue) to (15);"
    " create table {t}_b partition of {t} for values from (15) to (maxvalue)",
    lambda k: {"id": str(k)},
    lambda c: {"v": text(c)},
    forms=("row",),
)
shape(
    "unique",
    "create table {t} (id int primary key, u int unique deferrable initially deferred, v text)",
    lambda k: {"id": str(k)},
    lambda c: {"u": str(c.randint(0, 10_000_000)), "v": text(c)},
    swap="u",
    weight=2,
)
shape(
    "wholerow",
    "create table {t} (a int, b text, f numeric)",
    lambda k: {"a": str(k)},
    lambda c: {"b": text(c), "f": c.choice(["null", "1.0", "1.00"])},
    options=("--whole-row",),
    keyless=True,
)
shape(
    "dropped",
    "create table {t} (gone int, id int primary key, other text default 'x', v text);"
    " alter table {t} drop gone, drop other",
    lambda k: {"id": str(k)},
    lambda c: {"v": text(c)},
    sub="create table {t} (v text, id int primary key, extra timestamptz default now())",
)
shape(
    "family",
    "create table {t} (id int primary key, up int references {t} on delete cascade on update"
    " cascade deferrable initially deferred, v text)",
    lambda k: {"id": str(k)},
    lambda c: {
        "up": c.choice(["null", "(select max(id) from {t} where id < 10)"]),
        "v": text(c),
    },
)
shape(
    "wide",
    "create table {t} (id int primary key, " + ", ".join(f"c{i} text" for i in range(120)) + ")",
    lambda k: {"id": str(k)},
    lambda c: {f"c{c.randint(0, 119)}": text(c) for _ in range(4)},
    weight=0.7,
)
shape(
    "serial",
    "create table {t} (id serial primary key, k int unique, v text)",
    lambda k: {"k": str(k)},
    lambda c: {"v": text(c)},
)


@dataclass
class Table:
    """A table of a shape, in a schema; its name follows from its number."""

    number: int
    shape: Shape
    schema: str

    @property
    def name(self) -> str:
        """As it is written for the program: schema.name, unquoted."""
        return f"{self.schema}.Table {self.number}" if self.shape.quoted else self.sql

    @property
    def sql(self) -> str:
        """As it is written in SQL."""
        if self.shape.quoted:
            return f'{self.schema}."Table {self.number}"'
        return f"{self.schema}.t{self.number}_{self.shape.name}"

    def ddl(self, subscriber: bool) -> str:
        text = self.shape.sub if subscriber and self.shape.sub else self.shape.ddl
        return text.replace("{t}", self.sql)

    def key(self, number: int) -> Values:
        return {c: v.replace("{t}", self.sql) for c, v in self.shape.key(number).items()}

    def rest(self, chance: random.Random) -> Values:
        return {c: v.replace("{t}", self.sql) for c, v in self.shape.rest(chance).items()}

    def row(self, chance: random.Random, number: int) -> Values:
        return {**self.key(number), **self.rest(chance)}

    def where(self, number: int) -> str:
        return " and ".join(f"{c} = {v}" for c, v in self.key(number).items())
