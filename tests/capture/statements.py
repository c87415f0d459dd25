"""Random statements of an application for the tables of a case."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.capture.cases import MAIN, Alter, Case, Copy, Mark, Statement, Step, Undone, Write
from tests.capture.schemas import Schema, Table, quoted, random_schema
from tests.integration.capture.test_session_settings import SETTINGS

LEVELS = ("read committed", "read committed", "repeatable read", "serializable")


def random_case(
    seed: int, *, forms: tuple[str, ...] = (), version: int = 18, tame: bool = False
) -> Case:
    """The case of a seed."""
    source = random.Random(seed)
    schema = random_schema(source, forms, tame, version)
    writer = Writing(source, schema, version)
    steps: list[Step] = [Write((writer.insert_many(),))]
    for _ in range(source.choice([2, 4, 7])):
        steps.append(writer.step())
        if source.random() < 0.35:
            steps.append(Mark(source.choice(["tick", "tick", "tick", "replay", "rotate"])))
    steps.append(Mark(source.choice(["replay", "replay joined"])))
    chosen = {
        name: source.choice(values) for name, values in SETTINGS.items() if source.random() < 0.3
    }
    case = Case(
        seed,
        tables=schema.captured,
        made=tuple(schema.made),
        extras=tuple(schema.extras),
        target=tuple(schema.target),
        steps=tuple(steps),
        settings=chosen,
        packed=source.random() < 0.7,
        # cutting many rows into single ones proves nothing more and takes seconds
        flush_bytes=source.choice([500, 3000, 64 << 20, 64 << 20])
        if writer.size < 100
        else 400_000,
    )
    # behind all else, so that seeds go on meaning what they did
    return replace(case, damage=tuple(writer.statement() for _ in range(source.randrange(4))))


class Writing:
    """Makes the statements for one schema."""

    def __init__(self, source: random.Random, schema: Schema, version: int) -> None:
        self.source = source
        self.table: Table = schema.main
        self.version = version
        self.size = source.choice(
            [4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 14, 14, 14, 30, 30, 30, 30, 30, 600]
        )
        self.number = 0
        self.child = 0

    def step(self) -> Step:
        source = self.source
        if source.random() < 0.12:
            return self._alter()
        statements = tuple(self.statement() for _ in range(source.choice([1, 1, 1, 2, 3, 6])))
        return Write(
            statements,
            level=source.choice(LEVELS),
            guarded=source.random() < 0.4,
            commit=source.random() < 0.9,
        )

    def statement(self) -> Statement:
        source, table = self.source, self.table
        if source.random() < 0.08:
            inner = tuple(self._plain() for _ in range(source.choice([1, 2])))
            return Undone(inner)
        if table.keyless:
            return source.choice([self.insert_many, self._copy, self._truncate, self._log])()
        return self._plain()

    def _plain(self) -> Statement:
        if self.table.keyless:
            return self.insert_many()
        makers = [
            *[self._insert] * 2,
            *[self._update] * 5,
            *[self._delete] * 2,
            self._swap,
            self._swap,
            self._move,
            self._move,
            self._cte,
            self._cte,
            self._copy,
            self._truncate,
            self._log,
        ]
        if not self.table.deferrable:
            makers += [self._upsert] * 3
        if self.table.unique:
            makers += [self._hand_on] * 3
        if self.version >= 15:
            makers += [self._merge] * 2
        if self.table.child:
            makers += [self._child] * 3
        if self.table.self_reference:
            makers += [self._link] * 3
        return self.source.choice(makers)()

    # -- parts of statements ---------------------------------------------------------------

    def _relation(self) -> str:
        table = self.table
        if table.leaves and self.source.random() < 0.25:
            return self.source.choice(table.leaves)
        if table.heir:
            return self.source.choice([table.name, table.name, table.heir, f"only {table.name}"])
        return table.name

    def _range(self) -> tuple[int, int]:
        first = self.source.randrange(1, self.size + 2)
        few = self.source.choice([1, 1, 2, 3, self.size // 2, self.size])
        return first, min(first + few, self.size + 2)

    def _numbers(self) -> str:
        """A FROM item with the column g."""
        first, last = self._range()
        order = self.source.choice(["", " order by g", " order by g desc", " order by g % 3, g"])
        return f"(select g from generate_series({first}, {last - 1}) as g{order}) as s"

    def _some(self, alias: str = "") -> str:
        """A condition for some rows."""
        source, table = self.source, self.table
        which = source.random()
        if which < 0.15:
            return "true"
        if which < 0.35:
            return f"{alias}n % 3 = {source.randrange(3)}"
        if which < 0.6:
            return table.at(source, str(source.randrange(1, self.size + 1)), alias)
        first, last = self._range()
        names = ", ".join(f"{alias}{name}" for name, _ in table.key.columns)
        keys = table.keys(source, "g")
        return f"({names}) in (select {keys} from generate_series({first}, {last - 1}) as g)"

    def _sets(self, alias: str = "") -> str:
        source, table = self.source, self.table
        sets = [f"n = {alias}n + 1", f"v = {alias}v || 'u'", "v = null", f"n = {alias}n", "n = 6"]
        if table.unique:
            sets += [f"u = 9 - {alias}u", f"u = {alias}n", "u = null", f"u = {alias}u + 1"]
        for name, (_, expression) in table.values.items():
            number = str(source.randrange(1000))
            sets.append(f"{quoted(name)} = {expression.replace('#', f'({number})')}")
        chosen: dict[str, str] = {}
        for clause in source.sample(sets, source.choice([1, 1, 2])):
            chosen[clause.split(" = ")[0]] = clause
        return ", ".join(chosen.values())

    # -- kinds of statements ---------------------------------------------------------------

    def insert_many(self) -> str:
        return self._insert_text(MAIN, f"generate_series(1, {self.size}) as s(g)")

    def _insert_text(self, relation: str, rows: str, tail: str = "") -> str:
        table = self.table
        columns, values = table.insertable(), table.row(self.source, "g")
        if table.unique:
            columns, values = f"{columns}, u", f"{values}, g"
        return f"insert into {relation} ({columns}) select {values} from {rows}{tail}"

    def _insert(self) -> str:
        relation = self._relation().removeprefix("only ")
        if self.source.random() < 0.4:
            first = self.size + self.source.randrange(8)
            last = first + self.source.choice([0, 3, 12])
            return self._insert_text(relation, f"generate_series({first}, {last}) as s(g)")
        return self._insert_text(relation, self._numbers())

    def _upsert(self) -> str:
        table, source = self.table, self.source
        relation = self._relation().removeprefix("only ")
        keyed = f" on conflict ({table.key_columns})"
        tail = source.choice(
            [
                " on conflict do nothing",
                f"{keyed} do nothing",
                f"{keyed} do update set n = excluded.n + 100, v = excluded.v",
                f"{keyed} do update set n = excluded.n where excluded.n % 2 = 0",
                f"{keyed} do update set {self._sets('excluded.')}",
            ]
        )
        if table.arbiter and relation == MAIN and source.random() < 0.3:
            tail = f" on conflict (u) do update set {self._sets('excluded.')}"
        elif table.unique and tail == " on conflict do nothing":
            # a deferrable constraint cannot decide
            tail = f"{keyed} do nothing"
        return self._insert_text(relation, self._numbers(), tail)

    def _update(self) -> str:
        if self.source.random() < 0.15:
            return (
                f"update {self._relation()} as t set {self._sets('t.')}"
                f" from {self._numbers()} where {self.table.at(self.source, 's.g', 't.')}"
            )
        return f"update {self._relation()} set {self._sets()} where {self._some()}"

    def _delete(self) -> str:
        return f"delete from {self._relation()} where {self._some()}"

    def _move(self) -> str:
        """Changes keys: by a rule for many rows, or one row to a key that may be taken."""
        table, source = self.table, self.source
        more = source.choice(["", "", f", {self._sets()}"])
        if source.random() < 0.4:
            rule = source.choice(table.key.moves)
            return f"update {self._relation()} set {rule}{more} where {self._some()}"
        to = str(source.randrange(1, self.size + 6))
        sets = ", ".join(
            f"{name} = {value}"
            for (name, _), value in zip(table.key.columns, table.key.value(source, to), strict=True)
        )
        at = table.at(source, str(source.randrange(1, self.size + 1)))
        return f"update {self._relation()} set {sets}{more} where {at}"

    def _swap(self) -> str:
        table, source = self.table, self.source
        one, other = source.sample(range(1, max(self.size, 5)), 2)
        values = zip(
            table.key.columns,
            table.key.value(source, str(one)),
            table.key.value(source, str(other)),
            strict=True,
        )
        at_one, at_other = table.at(source, str(one)), table.at(source, str(other))
        sets = ", ".join(
            f"{name} = case when {at_one} then {b} else {a} end" for (name, _), a, b in values
        )
        more = source.choice(["", ", n = n + 1"])
        return f"update {MAIN} set {sets}{more} where ({at_one}) or ({at_other})"

    def _hand_on(self) -> str:
        """Rows pass their second unique value on to others."""
        table, source = self.table, self.source
        one, other = source.sample(range(1, max(self.size, 5)), 2)
        at_one, at_other = table.at(source, str(one)), table.at(source, str(other))
        columns = table.insertable()
        return source.choice(
            [
                f"update {MAIN} set u = null where {at_one}",
                f"update {MAIN} set u = {other} where {at_one}",
                f"update {MAIN} set u = u + 1 where {self._some()}",
                f"update {MAIN} set u = {one + other} - u where ({at_one}) or ({at_other})",
                f"with gone as (delete from {MAIN} where {at_one} returning u)"
                f" update {MAIN} set u = gone.u from gone where {at_other}",
                f"with gone as (delete from {MAIN} where {self._some()} returning n as g, u as old)"
                f" insert into {MAIN} ({columns}, u)"
                f" select {table.row(source, '(g + 1)')}, old from gone where g > 0",
                f"with was as (select u from {MAIN} where {at_one}), u as (update {MAIN}"
                f" set u = null where {at_one} returning 1) update {MAIN} set u = was.u from was"
                f" where {at_other}",
                f"with gone as (delete from {MAIN} where {self._some()} returning {columns}, u)"
                f" insert into {MAIN} ({columns}, u) select {columns}, u from gone limit 2",
            ]
        )

    def _cte(self) -> str:
        table, source = self.table, self.source
        columns, row = table.insertable(), table.row(source, "g")
        conflict = "" if table.deferrable else f" on conflict ({table.key_columns}) do nothing"
        return source.choice(
            [
                # the same keys go and come in one statement
                f"with d as (delete from {MAIN} where {self._some()} returning {columns})"
                f" insert into {MAIN} ({columns}) select {columns} from d limit 2",
                f"with d as (delete from {MAIN} where {self._some()} returning {columns})"
                f" insert into {MAIN} ({columns}) select {columns} from d",
                f"with d as (delete from {MAIN} where {self._some()} returning n as g)"
                f" insert into {MAIN} ({columns}) select {row} from d where g > 0{conflict}",
                f"with i as (insert into {MAIN} ({columns}) select {row}"
                f" from generate_series({self.size + 1}, {self.size + 3}) as g{conflict}"
                f" returning n) update {MAIN} set {self._sets()} where {self._some()}",
                f"with u as (update {MAIN} set {self._sets()} where n % 2 = 0 returning n)"
                f" delete from {MAIN} where n % 2 = 1 and {self._some()}",
                f"with u as (update {MAIN} set n = n + 2 where n % 2 = 0 returning n),"
                f" d as (delete from {MAIN} where n % 4 = 1 returning n)"
                " insert into app.log select n, 'cte' from u union all select n, 'd' from d",
                f"with l as (insert into app.log values (9, 'x') returning a as l_a)"
                f" update {MAIN} set v = v || l_a from l where {self._some()}",
            ]
        )

    def _copy(self) -> Copy:
        """COPY of integers and texts; other columns stay NULL."""
        table, source = self.table, self.source
        first = self.size + source.randrange(1, 20)
        count = source.choice([1, 3, 12])
        kind = table.key.columns[0][1]
        if len(table.key.columns) > 1 or kind not in {"int4", "int8", "numeric", "text"}:
            return Copy(
                "copy app.log (a, b) from stdin",
                "".join(f"{n}\tb\\n{n}\n" for n in range(count)),
            )
        return Copy(
            f"copy {MAIN} ({table.key_columns}, n, v) from stdin",
            "".join(f"{n}\t{n}\tc\\n{n}\n" for n in range(first, first + count)),
        )

    def _truncate(self) -> str:
        source, table = self.source, self.table
        if source.random() < 0.5:
            return self._log()
        choices = [
            "truncate app.log",
            f"truncate {MAIN} cascade",
            f"truncate {MAIN}, app.log cascade",
        ]
        if not table.child:
            choices.append(f"truncate {MAIN} restart identity")
        else:
            choices += [f"truncate {MAIN}, {table.child}", f"truncate {table.child}"]
        return source.choice(choices)

    def _log(self) -> str:
        return f"insert into app.log select g, 'l' from generate_series(1, {self.size}) as g"

    def _child(self) -> str:
        source, table = self.source, self.table
        refs = ", ".join(f"ref{n}" for n in range(len(table.key.columns)))
        self.child += 20
        return source.choice(
            [
                f"insert into app.c (id, {refs}, v) select {self.child} + row_number() over (),"
                f" {table.key_columns}, 'c' from {MAIN} where {self._some()} limit 15",
                "update app.c set v = v || 'u' where id % 2 = 0",
                f"delete from app.c where id % 3 = {source.randrange(3)}",
                "update app.c set id = id + 1000000 where id % 5 = 0",
                f"with d as (delete from app.c where id % 4 = 1 returning id)"
                f" delete from {MAIN} where {self._some()}",
            ]
        )

    def _link(self) -> str:
        """Gives rows a parent in their own table."""
        source, table = self.source, self.table
        names = [f"up{n}" for n in range(len(table.key.columns))]
        if source.random() < 0.4:
            # every row's parent is itself, or a chain by number
            pairs = zip(names, table.key.columns, strict=True)
            return (
                f"update {MAIN} set "
                + ", ".join(f"{up} = {name}" for up, (name, _) in pairs)
                + f" where {self._some()}"
            )
        at = str(source.randrange(1, 5))
        sets = ", ".join(
            f"{up} = {value}" for up, value in zip(names, table.key.value(source, at), strict=True)
        )
        return f"update {MAIN} set {sets} where {self._some()}"

    def _merge(self) -> str:
        table, source = self.table, self.source
        names = [name for name, _ in table.key.columns]
        keys = table.key.value(source, "g")
        using = ", ".join(f"{value} as m{n}" for n, value in enumerate(keys))
        on = " and ".join(f"t.{name} = s.m{n}" for n, name in enumerate(names))
        matched = source.choice(
            [
                f"when matched and s.g % 3 = 0 then delete"
                f" when matched then update set {self._sets('t.')}",
                f"when matched then update set {self._sets('t.')}",
                "when matched then delete",
                "when matched and s.g % 2 = 0 then do nothing when matched then"
                " update set n = s.g, v = 'm'",
            ]
        )
        if self.version >= 17 and source.random() < 0.2:
            matched += source.choice(
                [
                    " when not matched by source and t.n % 3 = 0 then delete",
                    f" when not matched by source then update set {self._sets('t.')}",
                ]
            )
        absent = source.choice(
            [
                "",
                f" when not matched then insert ({', '.join(names)}, n, v)"
                f" values ({', '.join(f's.m{n}' for n in range(len(names)))}, s.g, 'new')",
            ]
        )
        return (
            f"merge into {MAIN} as t using (select g, {using} from {self._numbers()}) as s"
            f" on {on} {matched}{absent}"
        )

    # -- ALTER TABLE -----------------------------------------------------------------------

    def _alter(self) -> Step:
        table, source = self.table, self.source
        self.number += 1
        fresh = source.random() < 0.6
        which = source.random()
        if which < 0.5 or not table.values:
            name = f"new{self.number}"
            kind, expression = source.choice(
                [("int4", "#::int4"), ("text", "'t' || #"), ("numeric", "#::numeric / 2")]
            )
            default = source.choice(["", f" default ({expression.replace('#', '7')})"])
            text = f"alter table {MAIN} add {name} {kind}{default}"
            table.values = {**table.values, name: (kind, expression)}
            return Alter(text, before=text, refreshed=fresh)
        name = source.choice(list(table.values))
        if name == table.ignored:
            # the option names a column that must stay
            return Write((self._log(),))
        values = dict(table.values)
        if which < 0.75:
            del values[name]
            table.values = values
            text = f"alter table {MAIN} drop column {quoted(name)}"
            return Alter(text, after=text, refreshed=fresh)
        new = f"renamed{self.number}"
        values[new] = values.pop(name)
        table.values = values
        text = f"alter table {MAIN} rename column {quoted(name)} to {new}"
        return Alter(text, before=text, settled=True, refreshed=fresh)
