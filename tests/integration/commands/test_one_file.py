"""``plan`` and ``apply`` of a cascade as one file: nodes, tables, rules, removal; no daemons."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.fixtures.cascade import Node, silent
from tests.fixtures.one_file import OneFile
from tests.fixtures.process import Program
from tests.support.suite.slow import first

ROLES = {"n1": "root", "n2": "branch of n1", "n3": "leaf of n2"}
TABLES = '\n[tables]\ninclude = ["public.*"]\n'


def schemas(file: OneFile) -> list[int]:
    count = "select count(*) from pg_namespace where nspname like 'pgq%' or nspname = 'londiste'"
    return [int(db.value(count)) for db in file.db.values()]


def tables(file: OneFile, node: str) -> list[str]:
    query = "select string_agg(table_name, ',' order by table_name) from londiste.table_info"
    return str(file.db[node].value(query + " where local")).split(",")


@pytest.mark.parametrize("stride", first([6, 1]))
def test_a_cascade_is_created_from_its_file_however_often_apply_is_killed(
    one_file: OneFile, stride: int
) -> None:
    one_file.write(ROLES, TABLES + '[nodes.n3.tables]\nexclude = ["b"]\n', pgq=False)
    one_file.db["n1"].execute(
        "create table a (id int primary key, v text); create table b (id int primary key);"
        " insert into a select i, 'x' from generate_series(1, 1000) i"
    )
    planned = one_file.plan()
    assert planned == [
        ("install", "n1", []),
        ("install", "n2", []),
        ("install", "n3", []),
        ("create-node", "n1", []),
        ("set-queue", "n1", []),
        ("create-node", "n2", []),
        ("create-node", "n3", []),
        ("add-table", "n1", ["public.a", "public.b"]),
        ("add-table", "n2", ["public.a", "public.b"]),
        ("add-table", "n3", ["public.a"]),
    ]
    text = one_file("plan")
    assert "10. n3: add table public.a\n   locks: each table ACCESS EXCLUSIVE" in text.out
    assert text.code == 2
    assert schemas(one_file) == [0, 0, 0]

    kills = one_file.killed_again_and_again("apply", stride=stride)
    assert (kills + 1) * stride > 16
    assert one_file.plan() == []
    assert one_file("plan").out == "nothing to do: the databases are like the file\n"
    assert tables(one_file, "n2") == ["public.a", "public.b"]
    assert tables(one_file, "n3") == ["public.a"]
    lag = one_file.db["n2"].value("select queue_ticker_max_lag::text from pgq.queue")
    assert lag == "00:00:00.01"
    info = one_file("node-info", "--node", "n3", "--json").json
    assert (info["name"], info["provider"]) == ("n3", "n2")
    members = one_file("members", "--json", "--node", "n3").json["nodes"]
    assert [m["node_name"] for m in members] == ["n1", "n2", "n3"]
    assert one_file("tables").err.startswith(f"error: {one_file.path}: several nodes")
    # What status prints, and what has two databases of its own.
    checked = one_file("check", "--all-nodes")
    assert "2 tables checked" in checked.err, checked.err
    assert one_file("missing", "--all-nodes").code == 1
    assert one_file("check").err.startswith(f"error: {one_file.path}: several nodes")
    assert one_file("doctor").err.startswith(f"error: {one_file.path}: several nodes")
    examined = one_file("doctor", one_file.db["n1"].dsn, one_file.db["n2"].dsn)
    assert examined.err.endswith(("findings\n", "finding\n")), examined.err


def test_status_asks_the_next_node_when_the_root_does_not_answer(one_file: OneFile) -> None:
    one_file.write(ROLES, TABLES)
    assert one_file("apply").code == 0
    with silent(Node("n1", one_file.db["n1"])):
        checked = one_file("status", "--check")
        assert checked.code == 2, checked.out
        assert checked.out.startswith("LONDISTE CRITICAL - node n1: does not answer")
        document = one_file("status", "--check", "--json").json
        assert document["severity"] == "critical"
        assert {"unreachable", "no-root"} <= {one["kind"] for one in document["findings"]}
        shown = one_file("status", "--json")
        assert shown.code == 0, shown.err
        assert {n["name"]: n["type"] for n in shown.json["nodes"]} == {
            "n1": "dead",
            "n2": "branch",
            "n3": "leaf",
        }
        # A node that is named is asked, and no other one.
        assert one_file("--node", "n1", "status", "--check").code == 3
        assert one_file("status", "--check", "--node", "n1").code == 3
        assert one_file("status", "--check", "--node", "n3").code == 2
    assert {n["type"] for n in one_file("status", "--json").json["nodes"]} >= {"root"}


def test_rules_and_removals_change_just_what_differs(one_file: OneFile) -> None:
    one_file.write(ROLES, TABLES)
    one_file.db["n1"].execute(
        "create table a (id int primary key, v text); create table b (id int primary key)"
    )
    assert one_file("apply").code == 0
    rule = (
        '[nodes.n3.tables."a"]\nwhere = "id > 3"\ncolumns = ["v", "id"]\n'
        'on_error = "skip_and_log"\n'
    )
    one_file.write(ROLES, TABLES + rule)
    assert one_file.plan() == [
        ("change-handler", "n3", ["public.a"]),
        ("change-policy", "n3", ["public.a"]),
    ]
    done = one_file("apply")
    assert done.code == 0, done.err
    assert "step 1 of 2: n3: change table public.a to columns id,v, where id > 3\n" in done.err
    assert one_file.plan() == []
    one_file.write(ROLES, TABLES)
    planned = one_file("plan").out
    assert "n3: change table public.a to no handler and no filter" in planned
    assert "n3: set conflict resolution of table public.a to error" in planned


def test_passwords_jobs_and_tables_without_key(one_file: OneFile) -> None:
    one_file.write(ROLES, '\n[tables]\nkeyless = "whole_row"\ninclude = ["public.*"]\n')
    text = one_file.path.read_text()
    dsn = one_file.db["n2"].dsn
    text = text.replace(f'db = "{dsn}"', f'db = "{dsn} password=geheim"')
    one_file.path.write_text(text + '[dispatchers.parts]\nnode = "n2"\n')
    one_file.path.chmod(0o600)
    one_file.db["n1"].execute("create table c (v text)")
    done = one_file("apply")
    assert done.code == 0, done.err
    assert one_file.plan() == []
    attrs = "select table_attrs from londiste.table_info where local"
    assert "whole_row" in one_file.db["n3"].value(attrs)
    exported = one_file("export")
    assert exported.out.count("[nodes.") == 3
    assert "geheim" not in done.err + exported.out + exported.err + one_file("plan", "--json").out
    registered = one_file("dispatch", "--register")
    assert registered.code == 0, registered.err
    assert "parts" in one_file.db["n2"].value("select string_agg(co_name, ',') from pgq.consumer")


def test_what_the_file_omits_is_removed_only_on_request(one_file: OneFile) -> None:
    one_file.write(ROLES, TABLES)
    one_file.db["n1"].execute(
        "create table a (id int primary key); create table b (id int primary key)"
    )
    assert one_file("apply").code == 0
    fewer = {name: ROLES[name] for name in ("n1", "n2")}
    one_file.write(fewer, TABLES + 'exclude = ["b"]\n')
    planned = one_file.plan()
    assert planned == [("remove-table", "n1", ["public.b"]), ("drop-node", "n3", [])]
    refused = one_file("apply")
    assert refused.code != 0 and "londiste apply --allow-remove" in refused.err
    assert one_file.plan() == planned
    assert one_file("apply", "--allow-remove").code == 0
    assert one_file.plan() == []
    assert tables(one_file, "n1") == ["public.a"]
    assert one_file.db["n3"].value("select count(*) from pgq_node.node_info") == 0


def test_sequences_come_with_tables_and_by_the_file(one_file: OneFile) -> None:
    one_file.write(ROLES, TABLES + 'sequences = ["free"]\n')
    one_file.db["n1"].execute(
        "create sequence shared; create sequence free; create sequence late;"
        " create table a (id int primary key default nextval('shared'));"
        " create table b (id int primary key default nextval('shared'))"
    )
    done = one_file("apply")
    assert done.code == 0, done.err
    assert "n3: create sequence public.free and add it" in done.err
    assert one_file.plan() == []

    def kept(node: str) -> str:
        query = "select string_agg(seq_name, ' ' order by seq_name) from londiste.seq_info"
        return str(one_file.db[node].value(query + " where local"))

    assert [kept(node) for node in ROLES] == ["public.free public.shared"] * 3
    # A table that is replicated already; the file does not name other sequences.
    for db in one_file.db.values():
        db.execute("create sequence if not exists late")
        db.execute("alter table a alter id set default nextval('late')")
    one_file.write(ROLES, TABLES)
    assert one_file.plan() == [("add-seq", node, []) for node in ROLES]
    assert "n1: add sequence public.late" in one_file("plan").out
    assert one_file("apply").code == 0
    assert [kept(node) for node in ROLES] == ["public.free public.late public.shared"] * 3
    assert one_file.plan() == []
    assert 'sequences = ["public.free"]' in one_file("export").out
    one_file.write(ROLES, TABLES + "sequences = []\n")
    assert one_file.plan() == [("remove-seq", "n1", [])]
    assert one_file("apply").code != 0
    assert one_file("apply", "--allow-remove").code == 0
    assert kept("n1") == "public.late public.shared"
    assert one_file.plan() == []
    # A sequence that the file names stays when its last table leaves the file.
    one_file.write(ROLES, TABLES + 'exclude = ["a"]\nsequences = ["late"]\n')
    assert one_file.plan() == [("remove-table", "n1", ["public.a"])]
    assert (
        "n1: remove table public.a on all nodes, keep sequence public.late" in one_file("plan").out
    )
    assert one_file("apply", "--allow-remove").code == 0
    assert one_file.plan() == []
    assert kept("n1") == "public.late public.shared"
    events = one_file.db["n1"].execute("select ev_type, ev_data from pgq.event_template")
    assert ("londiste.remove-table", "public.a") in events
    assert ("londiste.remove-seq", "public.late") not in events


CONTINUED = ("change-handler", "a", "--continue", "--node", "n2")


@pytest.mark.parametrize("finish", [CONTINUED, pytest.param(("apply",), marks=pytest.mark.slow)])
def test_a_change_of_a_branch_killed_at_any_step_is_shown_until_the_nodes_below_copy(
    one_file: OneFile, finish: tuple[str, ...]
) -> None:
    one_file.write(ROLES, TABLES)
    one_file.db["n1"].execute("create table a (id int primary key, v text)")
    assert one_file("apply").code == 0

    def states() -> list[str | None]:
        query = "select merge_state from londiste.table_info"
        return [one_file.db[node].value(query) for node in ("n2", "n3")]

    def copied(*names: str) -> None:
        for name in names:
            one_file.db[name].execute("update londiste.table_info set merge_state = 'ok'")

    def shown() -> list[bool]:
        texts = [
            one_file("status", "--json", "--node", "n3").out,
            one_file("status", "--check", "--json", "--node", "n1").out,
            one_file("check", "--json", "--node", "n2").out,
        ]
        return ["the nodes below have not copied it again" in text for text in texts]

    copied("n2", "n3")
    one_file.write(ROLES, TABLES + '[nodes.n2.tables."a"]\nwhere = "id > 3"\n')
    assert one_file.killed(("apply",), "plan.before-step:2") == -9
    assert states() == [None, "ok"] and shown() == [True] * 3
    # The copy of the branch ends before the command is repeated.
    copied("n2")
    assert one_file.plan() == [("change-handler", "n2", ["public.a"])]
    assert "continues an interrupted command" in one_file("plan").out
    assert one_file.killed(finish, "plan.after-step") == -9
    assert states() == ["ok", None] and shown() == [True] * 3
    done = one_file(*finish)
    assert done.code == 0, done.err
    assert states() == ["ok", None] and shown() == [False] * 3
    assert one_file.plan() == []
    assert "nothing to do" in one_file(*CONTINUED).err
    refused = one_file(*CONTINUED, "--where", "true")
    assert refused.code == 2 and "--continue excludes" in refused.err


def test_code_of_the_root_is_found_before_anything_is_done(one_file: OneFile) -> None:
    roles = {"n1": "root", "n2": "leaf of n1"}
    create = '\n[tables]\ninclude = ["*"]\ncreate = "{}"\n'
    one_file.write(roles, create.format("full"), pgq=False)
    one_file.db["n1"].execute(
        "create function f() returns int language sql volatile as 'select 1';"
        " create table a (id int primary key, v int default f()); create table b (id int"
        " primary key); create rule r as on delete to b do also notify x"
    )
    found = one_file("plan")
    assert found.code == 2
    assert "allow_code = true in [tables], to accept function public.f(), column v" in found.out
    (action,) = [a for a in one_file("plan", "--json").json["actions"] if a["needs_allow_code"]]
    assert action["node"] == "n2"
    refused = one_file("apply")
    assert refused.code == 2 and "would run in node n2: function public.f()" in refused.err
    assert "allow_code = true in [tables]" in refused.err
    assert schemas(one_file) == [0, 0]
    # Columns alone take neither default nor rule along; and consent is enough.
    for accepted in (create.format("columns"), create.format("full") + "allow_code = true\n"):
        one_file.write(roles, accepted)
        assert "to accept" not in one_file("plan").out
    assert one_file("apply").code == 0
    # Captures of the root are no code of a new node.
    one_file.db["n2"].execute("drop table a, b")
    one_file.write({**roles, "n3": "leaf of n1"}, create.format("full"), pgq=False)
    assert one_file("plan").out.count("to accept") == 1


def test_rows_of_a_node_below_that_a_copy_would_duplicate_refuse_the_change(
    one_file: OneFile,
) -> None:
    one_file.write(ROLES, TABLES)
    one_file.db["n1"].execute("create table a (id int primary key, v text)")
    assert one_file("apply").code == 0
    for node, attrs in (("n2", ""), ("n3", ", table_attrs = 'skip_truncate=1'")):
        one_file.db[node].execute(f"update londiste.table_info set merge_state = 'ok'{attrs}")
    refused = one_file("change-handler", "a", "--where", "id > 3", "--node", "n2")
    assert refused.code == 3, refused.err
    assert "of node n3, below this one, was added with --skip-truncate" in refused.err
    assert one_file.db["n2"].value("select merge_state from londiste.table_info") == "ok"


def test_apply_waits_for_a_table_that_its_provider_is_copying(
    one_file: OneFile, program: Callable[..., Program]
) -> None:
    one_file.write(ROLES, '\n[tables]\ninclude = ["a"]\n')
    create = "create table {0} (id int primary key, v text); create index {0}_v on {0} (v)"
    one_file.db["n1"].execute(create.format("a") + ";" + create.format("b"))
    assert one_file("apply").code == 0
    branch = one_file.db["n2"]
    one_file.write(ROLES, TABLES)
    # The worker of the branch begins its copy before apply comes to the leaf.
    assert one_file.killed(["apply"], "plan.before-step:4") == -9
    assert (tables(one_file, "n2"), tables(one_file, "n3")) == (
        ["public.a", "public.b"],
        ["public.a"],
    )
    dropped = "alter table b add primary key (id); create index b_v on b (v)"
    change = (
        "update londiste.table_info set merge_state = %s, dropped_ddl = %s"
        " where table_name = 'public.b'"
    )
    branch.execute("alter table b drop constraint b_pkey; drop index b_v")
    branch.execute(change, "in-copy", dropped)
    refused = one_file("--node", "n3", "add-table", "b", "--create")
    assert refused.code == 3, refused.err
    assert "being copied, and its key is dropped" in refused.err and branch.name in refused.err
    applied = program("-c", str(one_file.path), "apply")
    applied.says("n3: waits for the copy of table public.b into")
    start = f"londiste -c {one_file.path} worker --node n2"
    applied.says(f"n2: worker: NOT RUNNING (never reported here); start it: {start}")
    branch.execute(dropped)
    branch.execute(change, "ok", None)
    branch.execute("update londiste.table_info set merge_state = 'ok'")
    assert applied.end(within=60) == 0, applied.text
    assert (
        one_file.db["n3"].value("select count(*) from pg_index where indrelid = 'b'::regclass") == 2
    )


def test_a_password_that_others_can_read_is_a_labelled_warning(one_file: OneFile) -> None:
    one_file.write({"n1": "root"}, "", pgq=False)
    text = one_file.path.read_text().replace('db = "', 'db = "password=x ')
    one_file.path.write_text(text)
    one_file.path.chmod(0o644)
    # In a process of its own: here the log of the tests gets it.
    call = [sys.executable, "-m", "londiste", "-c", str(one_file.path), "plan"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert f"warning: {one_file.path} contains passwords" in done.stderr
