"""Whatever goes wrong with a masked table, no original value is shown or kept on the leaf."""

from __future__ import annotations

from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.errors import EventError
from londiste.handlers.obfuscate import Mask
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line, LineNode
from tests.integration.commands.test_obfuscate import everything
from tests.support.set_changes import Target

SECRET = "0r1ginal"
SCHEMA = "create table t (id int primary key, mail text unique, phone text, age int, note text)"
LEAF = """
create table t (id int primary key, mail uuid unique, age int check (age < 100), note varchar(5))
"""
KEY = "k3y-of-test"
RULES = '{"id": "keep", "mail": "hash", "age": "keep", "note": "keep"}'
MASKED = ("--handler", "obfuscate", "--handler-arg", f"rules={RULES}")
HASH = Mask(RULES, KEY.encode())({"mail": "0r1ginal-x"})["mail"]

#: Kind of finding -> what is done on the leaf first, and the change of the root that meets it.
WRONG = {
    "missing": ("delete from t where id = 5", "update t set mail = '0r1ginal-m' || id"),
    "exists": ("insert into t values (99)", "insert into t values (99, '0r1ginal-n', '0r1ginal')"),
    "constraint": (
        f"insert into t values (98, '{HASH}')",
        "insert into t values (99, '0r1ginal-x', '0r1ginal-p')",
    ),
    "value": ("", "update t set note = 'too long', phone = '0r1ginal-n' where id = 7"),
    "structure": (
        "alter table t drop column age",
        "update t set mail = '0r1ginal-q' where id = 7",
    ),
}
CASES = [
    pytest.param(way, kind, marks=() if (way, kind) in quick else pytest.mark.slow)
    for quick in [{("statement", "constraint")}]
    for way in ("statement", "row", "jsontriga", "logutriga", "job")
    for kind in WRONG
]


def seen(line: Line, node: LineNode) -> str:
    """All that a person or a program can see on the node."""
    out = [everything(node), line.processes.report()]
    for args in (("events", "export", "-", "--all"), ("status",)):
        done = line.here(node, *args)
        out.append(done.out + done.err)
    return "\n".join(out)


@pytest.mark.parametrize(("way", "kind"), CASES)
def test_no_error_shows_an_original_value(line: Line, way: str, kind: str) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    large = {"parallel_apply_min_events": 1} if way == "job" else {}
    leaf = line.node("leaf", NodeType.LEAF, root, schema=LEAF, obfuscator_key=KEY, **large)
    options: dict[str, Any] = {"form": way} if way in {"statement", "row"} else {}
    if way.endswith("triga"):
        options = {"trigger": way, "trigger_args": ("backup",)}
    line.add(root, "t", **options)
    line.tick()
    line.once(leaf)
    done = line.here(leaf, "add-table", "t", "--expect-sync", *MASKED)
    assert done.code == 0, str(done)
    root.database.execute(
        "insert into t select i, '0r1ginal-' || i, '0r1ginal-p' || i, i, 'n' || i"
        " from generate_series(1, 30) i"
    )
    line.tick()
    line.once(leaf)
    before, change = WRONG[kind]
    if before:
        leaf.database.execute("set session_replication_role = replica;" + before)
    root.database.execute(change)
    line.tick()
    done = line.here(leaf, "-v", "worker", "--once")
    assert done.code == 5
    text = seen(line, leaf)
    assert f'"kind": "{kind}"' in text
    assert SECRET not in done.out + done.err + text
    if kind == "structure":
        return
    assert line.here(leaf, "change-policy", "t", "log").code == 0
    done = line.here(leaf, "-v", "worker", "--once")
    assert done.code == 0, str(done)
    assert leaf.database.value("select count(*) from londiste.apply_log") == 1
    assert SECRET not in done.out + done.err + seen(line, leaf)


def test_a_batch_that_is_tried_again_is_logged_less_and_less(
    pgq_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    target = Target(pgq_db)
    target.database.execute(
        "create table t (id int primary key, v text);"
        " create function boom() returns trigger language plpgsql as"
        " $$ begin raise exception '%', 'boom ' || repeat('A', 300000); end $$;"
        " create trigger x before insert on t for each row execute function boom();"
        " alter table t enable always trigger x"
    )
    for _ in range(9):
        with pytest.raises(EventError):
            target.apply(target.i(id="1", v="x"))
    texts = [r.getMessage() for r in caplog.records if "one by one" in r.getMessage()]
    assert [text.partition(" times since ")[0][-2:] for text in texts[1:]] == ["(2", "(4", "(8"]
    assert all("boom" in text and len(text) < 700 for text in texts)
    target.conn.close()
