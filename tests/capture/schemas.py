"""Random tables: keys of many types, constraints, partitions, heirs, and triggers that write back.

A table is described by SQL expressions over a number: the same number gives the same key in every
statement, sometimes by another text that is equal (1.0 and 1.00).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.capture.cases import MAIN
from tests.capture.key_types import KEYS, TYPES, VALUES, KeyType


@dataclass
class Table:
    """A table that statements are made for; ``values`` changes with ALTER TABLE."""

    name: str
    key: KeyType
    values: dict[str, tuple[str, str]]
    keyless: bool = False
    deferrable: bool = False
    unique: bool = False
    arbiter: bool = False
    self_reference: bool = False
    leaves: tuple[str, ...] = ()
    heir: str = ""
    child: str = ""
    partitioned: bool = False
    ignored: str = ""
    versions: int = 0

    def keys(self, source: random.Random, n: str) -> str:
        """The key of number ``n`` as a list of expressions."""
        return ", ".join(self.key.value(source, n))

    @property
    def key_columns(self) -> str:
        return ", ".join(name for name, _ in self.key.columns)

    def at(self, source: random.Random, n: str, alias: str = "") -> str:
        """The condition for the row of number ``n``."""
        return " and ".join(
            f"{alias}{name} = {value}"
            for (name, _), value in zip(self.key.columns, self.key.value(source, n), strict=True)
        )

    def same(self, row: str) -> str:
        """The condition for the row whose key ``row`` (new, old) has."""
        return " and ".join(f"{name} = {row}.{name}" for name, _ in self.key.columns)

    def insertable(self) -> str:
        """Columns of every INSERT."""
        more = ["n", "v", *(quoted(name) for name in self.values)]
        return ", ".join([self.key_columns, *more])

    def row(self, source: random.Random, n: str) -> str:
        """Values for them."""
        more = [
            f"({n})::int4",
            source.choice([f"'v' || ({n})", "null", "E'a\\nb'"]),
            *(
                "null" if source.random() < 0.1 else expression.replace("#", f"({n})")
                for _, expression in self.values.values()
            ),
        ]
        return ", ".join([self.keys(source, n), *more])


@dataclass
class Schema:
    """The tables of a case, and the DDL that makes them."""

    main: Table
    made: list[str] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    captured: dict[str, tuple[str, ...]] = field(default_factory=dict)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def random_schema(
    source: random.Random, forms: tuple[str, ...], tame: bool, version: int = 14
) -> Schema:
    """Random tables; ``forms`` are the forms of capture there are, empty for the only one."""
    key = KEYS[source.choice(list(KEYS))]
    chosen = source.sample(list(VALUES), source.randrange(4))
    table = Table(MAIN, key, {name: VALUES[name] for name in chosen})
    schema = Schema(table, list(TYPES))
    kind = source.choice(["plain"] * 5 + ["hash", "hash", "range", "deep", "heir", "keyless"])
    table.keyless = kind == "keyless"
    table.partitioned = kind in {"hash", "range", "deep"}
    table.deferrable = not table.keyless and source.random() < 0.25
    if tame and table.partitioned:
        table.deferrable = False
    _make_main(source, schema, kind)
    if not table.partitioned:
        if source.random() < 0.35:
            _unique(source, schema, version)
        if source.random() < 0.2:
            kind_ = source.choice(["stored", "virtual"] if version >= 18 else ["stored"])
            schema.extras.append(
                f"alter table app.t add g text generated always as ('<' || n || '>') {kind_}"
            )
        if source.random() < 0.1 and not table.heir:
            always = source.choice(["always", "by default"])
            schema.extras.append(
                f"alter table app.t add number int8 generated {always} as identity"
            )
    if not table.deferrable and not table.keyless:
        if not tame and source.random() < 0.25:
            _self_reference(source, schema)
        if source.random() < 0.3:
            _child(source, schema)
    schema.made.append("create table app.log (a int4, b text)")
    for number in range(0 if tame else source.choice([0, 0, 1, 1, 2, 3])):
        schema.extras += _trigger(source, schema, number)
    _capture(source, schema, forms, kind)
    _target(source, schema)
    return schema


def _unique(source: random.Random, schema: Schema, version: int) -> None:
    """A unique column besides the key."""
    schema.main.unique = True
    late = source.choice(["", "", " deferrable", " deferrable initially deferred"])
    kind = source.choice(
        [
            "unique (u)",
            "unique (u)",
            "unique nulls not distinct (u)" if version >= 15 else "unique (u)",
            "exclude using btree (u with =)",
        ]
    )
    schema.main.arbiter = not late and kind == "unique (u)"
    schema.made.append("alter table app.t add u int4")
    schema.extras.append(f"alter table app.t add constraint t_u {kind}{late}")


def _target(source: random.Random, schema: Schema) -> None:
    """What the target's table has and the source's has not."""
    if source.random() < 0.15:
        schema.target.append("alter table app.t add own text default 'mine'")
    if source.random() < 0.15:
        name = "app.t"
        schema.target += [
            "create table app.seen (what text)",
            "create function app.look() returns trigger language plpgsql as $f$ begin"
            " insert into app.seen values (tg_op); return coalesce(new, old); end $f$;"
            f" create trigger look {source.choice(['before', 'after'])}"
            f" insert or update or delete on {name} for each row execute function app.look();"
            f" alter table {name} enable {source.choice(['always', 'replica'])} trigger look",
        ]
    if schema.main.unique and source.random() < 0.3:
        # follows from that of the source, which is perhaps deferred
        columns = source.choice(["u", "u, n", "n, u"])
        schema.target.append(f"create unique index on app.t ({columns})")
    elif source.random() < 0.1:
        schema.target.append(f"create index on app.t ({schema.main.key_columns}, n)")


def _make_main(source: random.Random, schema: Schema, kind: str) -> None:
    table = schema.main
    columns = [f"{name} {kind_}" for name, kind_ in table.key.columns]
    others = ["n int4", "v text"] + [
        f"{quoted(name)} {kind_}" for name, (kind_, _) in table.values.items()
    ]
    if source.random() < 0.3:
        columns, others = others, columns
    late = source.choice([" deferrable", " deferrable initially deferred"])
    body = ", ".join(columns + others)
    if not table.keyless:
        body += f", primary key ({table.key_columns})" + (late if table.deferrable else "")
    first = table.key.columns[0][0]
    if not table.partitioned:
        schema.made.append(f"create table app.t ({body})")
        if kind == "heir":
            table.heir = "app.heir"
            schema.made.append(
                f"create table app.heir (primary key ({table.key_columns})) inherits (app.t)"
            )
        return
    if kind == "range" and table.key.columns[0][1] in {"int4", "numeric"}:
        schema.made.append(f"create table app.t ({body}) partition by range ({first})")
        bounds = ["for values from (minvalue) to (3)", "for values from (3) to (7)", "default"]
    else:
        schema.made.append(f"create table app.t ({body}) partition by hash ({first})")
        bounds = [f"for values with (modulus 3, remainder {n})" for n in range(3)]
    table.leaves = ("app.t0", "app.t1", "app.t2")
    schema.made.append(f"create table app.t0 partition of app.t {bounds[0]}")
    if kind == "deep":
        schema.made += [
            f"create table app.t1 partition of app.t {bounds[1]} partition by hash ({first})",
            "create table app.t1a partition of app.t1 for values with (modulus 2, remainder 0)",
            "create table app.t1b partition of app.t1 for values with (modulus 2, remainder 1)",
        ]
        table.leaves = ("app.t0", "app.t1", "app.t1a", "app.t1b", "app.t2")
    else:
        schema.made.append(f"create table app.t1 partition of app.t {bounds[1]}")
    # One whose columns stand in another order, with a hole among them.
    swapped = ", ".join(["hole int4", *reversed(columns + others)])
    if not table.keyless:
        swapped += f", primary key ({table.key_columns})" + (late if table.deferrable else "")
    schema.made += [
        f"create table app.t2 ({swapped})",
        "alter table app.t2 drop column hole",
        f"alter table app.t attach partition app.t2 {bounds[2]}",
    ]


def _self_reference(source: random.Random, schema: Schema) -> None:
    table = schema.main
    table.self_reference = True
    kinds = [kind for _, kind in table.key.columns]
    names = [f"up{n}" for n in range(len(kinds))]
    for name, kind in zip(names, kinds, strict=True):
        schema.made.append(f"alter table app.t add {name} {kind}")
    late = source.choice(["", "", " deferrable initially deferred"])
    schema.extras.append(
        f"alter table app.t add constraint t_up foreign key ({', '.join(names)})"
        f" references app.t ({table.key_columns})"
        f" on delete {source.choice(['cascade', 'cascade', 'set null', 'no action'])}"
        f" on update {source.choice(['cascade', 'set null', 'no action'])}{late}"
    )


def _child(source: random.Random, schema: Schema) -> None:
    table = schema.main
    table.child = "app.c"
    kinds = [kind for _, kind in table.key.columns]
    names = [f"ref{n}" for n in range(len(kinds))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    schema.made.append(f"create table app.c (id int4 primary key, {columns}, v text)")
    schema.extras.append(
        f"alter table app.c add constraint c_t foreign key ({', '.join(names)})"
        f" references app.t ({table.key_columns})"
        f" on delete {source.choice(['cascade', 'cascade', 'set null', 'no action'])}"
        f" on update {source.choice(['cascade', 'set null', 'no action'])}"
        f"{source.choice(['', '', ' deferrable initially deferred'])}"
    )
    if source.random() < 0.4:
        # counts its rows in the parent, and writes to it while the parent is being deleted
        row = " and ".join(
            f"{name} = {{row}}.{ref}"
            for (name, _), ref in zip(table.key.columns, names, strict=True)
        )
        schema.extras += _function(
            "c_count",
            "app.c",
            "after insert or delete or update",
            "if tg_op <> 'DELETE' then update app.t set n = n + 1 where "
            + row.format(row="new")
            + "; end if; if tg_op <> 'INSERT' then update app.t set n = n - 1 where "
            + row.format(row="old")
            + "; end if;",
            source.choice(["A_count", "z_count"]),
        )


def _function(name: str, table: str, when: str, body: str, trigger: str) -> list[str]:
    answer = "case tg_op when 'DELETE' then old else new end" if "before" in when else "null"
    level = "for each statement" if "for each statement" in when else "for each row"
    when = when.removesuffix(" for each statement")
    kind = "constraint trigger" if "deferred" in when else "trigger"
    events, _, late = when.partition("!")
    on = f"{events} on {table} {late}".strip()
    return [
        f"create function app.{name}() returns trigger language plpgsql as $f$ begin"
        f" if pg_trigger_depth() < 3 then {body} end if; return {answer}; end $f$;"
        f' create {kind} "{trigger}" {on} {level} execute function app.{name}()'
    ]


def _trigger(source: random.Random, schema: Schema, number: int) -> list[str]:
    """A trigger of the user on the main table, by random one of those that make order difficult."""
    table = schema.main
    other = str(source.randrange(1, 9))
    where = table.at(source, other)
    columns = f"{table.key_columns}, n, v"
    row = f"{table.keys(source, other)}, {other}, 'by trigger'"
    set_key = ", ".join(
        f"{name} = {value}"
        for (name, _), value in zip(
            table.key.columns, table.key.value(source, str(source.randrange(1, 9))), strict=True
        )
    )
    new_key = " ".join(
        f"new.{name} := {value};"
        for (name, _), value in zip(
            table.key.columns, table.key.value(source, "coalesce(new.n, 0) % 6 + 1"), strict=True
        )
    )
    conflict = (
        ""
        if table.keyless or table.deferrable
        else f" on conflict ({table.key_columns}) do nothing"
    )
    events = source.choice(
        ["insert", "update", "insert or update", "delete", "insert or update or delete"]
    )
    writing = source.choice(["insert", "update", "insert or update", "update of v", "update of n"])
    kinds: list[tuple[str, str]] = [
        (f"before {writing}", "new.n := coalesce(new.n, 0) + 1;"),
        (f"before {writing}", "new.v := coalesce(new.v, '') || 'b';"),
        (
            f"before {events}",
            "if coalesce((case tg_op when 'DELETE' then old.n else new.n end), 0)"
            " % 4 = 1 then return null; end if;",
        ),
        (f"after {events}", "insert into app.log values (1, tg_op);"),
        (f"after {events} for each statement", "insert into app.log values (2, tg_op);"),
    ]
    if not table.keyless:
        kinds += [
            ("before update", f"if new.n % 3 = 0 then {new_key} end if;"),
            ("before delete", f"delete from app.t where {where};"),
            ("before update", f"update app.t set n = n + 1 where {where};"),
            ("before insert", f"delete from app.t where {where};"),
            (f"after {writing}", f"update app.t set n = n + 1 where {table.same('new')};"),
            (f"after {writing}", f"update app.t set v = v || '+' where {table.same('new')};"),
            (f"after {writing}", f"delete from app.t where {table.same('new')} and n % 3 = 0;"),
            (f"after {events}", f"update app.t set n = n + 1 where {where};"),
            (f"after {events}", f"delete from app.t where {where};"),
            (f"after {events}", f"update app.t set {set_key} where {where};"),
            (f"after {events}", f"insert into app.t ({columns}) values ({row}){conflict};"),
            (
                f"after {writing}",
                f"delete from app.t where {table.same('new')} and n % 4 = 0;"
                f" insert into app.t ({columns}) values ({row}){conflict};",
            ),
            ("after delete", f"insert into app.t ({columns}) values ({row}){conflict};"),
            (f"after {events} for each statement", f"update app.t set n = n + 1 where {where};"),
            (f"after {events} for each statement", f"delete from app.t where {where};"),
            (f"before {events} for each statement", f"delete from app.t where {where};"),
            (
                f"after {writing.replace('update of v', 'update').replace('update of n', 'update')}"
                "! deferrable initially deferred",
                # at commit the depth is that of the first one each time
                f"update app.t set n = n + 1 where {table.same('new')} and n < 12;",
            ),
        ]
    when, body = source.choice(kinds)
    name = f"f{number}"
    return _function(name, MAIN, when, body, source.choice(["A_", "z_"]) + name)


def _capture(source: random.Random, schema: Schema, forms: tuple[str, ...], kind: str) -> None:
    table = schema.main

    def form() -> list[str]:
        if not forms or source.random() < 0.15:
            return []
        return [f"form={source.choice(forms)}"]

    options = form()
    if table.heir:
        # the rows of a heir stand in the transition tables of its parent
        options = [option for option in options if option != "form=statement"]
    if source.random() < 0.15:
        options.append("backup")
    if len(table.key.columns) > 1 and not table.keyless and source.random() < 0.3:
        options.append("pkey=" + ",".join(name for name, _ in reversed(table.key.columns)))
    if table.values and not table.keyless and source.random() < 0.1:
        name = source.choice(list(table.values))
        if '"' not in name:
            options.append(f"ignore={name}")
            table.ignored = name
    schema.captured[MAIN] = tuple(options)
    schema.captured["app.log"] = tuple(form())
    if table.child:
        schema.captured[table.child] = tuple(form())
    if table.heir:
        schema.captured[table.heir] = tuple(form())
