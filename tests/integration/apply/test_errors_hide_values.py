"""An event that cannot be decoded shows no data, and nothing at all of columns left out here."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import Command, Line
from tests.integration.commands.test_obfuscate import everything

SECRET = "0r1ginal"
SCHEMA = "create table {} (id int primary key, a text, note text)"
#: How columns are left out -- options of add-table.
WAYS = {
    "columns": ("--columns", "id,a"),
    "skip": ("--skip-columns", "note"),
    "where": ("--where", "id < 1000"),
}
#: Events that nobody can read: type and data.
BROKEN = {
    "url": ("I:id", "id=1&a=x&note=0r1ginal%zz"),
    "json": ('{"op":"INSERT","pkey":["id"]}', '{"id":1,"note":"0r1ginal'),
    "sql": ("I", "(id,note) values (1, '0r1ginal"),
    "pack": ('{"op":"INSERT","pkey":["id"],"rows":2}', '{"id":1,"note":"0r1ginal"},{"id":'),
}


def test_data_that_cannot_be_decoded_is_not_shown(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT)
    leaf = line.node("leaf", NodeType.LEAF, root)
    tables = ["columns_sql", "columns_json", "skip_url", "skip_pack", "where_sql"]
    for node in (root, leaf):
        node.database.execute("; ".join(SCHEMA.format(name) for name in tables))
    line.add(root, *tables)
    for way, options in WAYS.items():
        names = [name for name in tables if name.startswith(f"{way}_")]
        done = command(leaf, "add-table", *names, "--expect-sync", *options)
        assert done.code == 0, str(done)
    line.tick()
    line.once(leaf)
    for name in tables:
        kind = name.partition("_")[2]
        ev_type, data = BROKEN[kind]
        event = root.database.value(
            "select pgq.insert_event('line', %s, %s, %s, null, null, null)",
            ev_type,
            data,
            f"public.{name}",
        )
        line.tick()
        done = command(leaf, "worker", "--once")
        assert done.code == 5, (name, str(done))
        told = done.out + done.err
        for args in (("events", "show"), ("events", "export", "-"), ("status",)):
            answer = command(leaf, *args)
            assert answer.code == 0, str(answer)
            told += answer.out + answer.err
        assert SECRET not in told, (name, told)
        if name.startswith("where"):
            # All columns come here: the event may be named, without its data.
            assert f"ev_data of {len(data)} characters" in told, (name, told)
            assert f"londiste queue events QUEUE --id {event} shows the event" in told, (name, told)
        else:
            assert SECRET not in everything(leaf), (name, told)
            assert "its data is hidden" in told, (name, told)
        root.database.execute(
            "delete from pgq.event_template where ev_extra1 = %s", f"public.{name}"
        )
        line.once(leaf)
