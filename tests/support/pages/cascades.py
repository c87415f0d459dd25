"""Pages about replicated tables: a root and a leaf, or more nodes."""

from __future__ import annotations

import shlex

from tests.support.pages.plan import Page

PAIR = {"root": None, "leaf": "root"}

#: Tables of the pages' shop.
ORDERS = (
    "create table orders (id int primary key, state text default 'new', region text default 'eu',"
    " price numeric default 10, user_id int default 1, created timestamptz default now())"
)
ROWS = "insert into orders (id) select generate_series(1, 20)"
SALES = "create schema sales; create table sales.visits (id int primary key, page text)"


def sql(service: str, *statements: str) -> str:
    """Statements in a database."""
    words = "".join(f" -c {shlex.quote(one)}" for one in statements)
    return f"psql -Xq -v ON_ERROR_STOP=1 -d service={service}{words}\n"


def replicated(*tables: str, leaf: str = "leaf") -> str:
    """Tables that are in sync on root and leaf."""
    return (
        f"londiste -c root.toml add-table {' '.join(tables)}\n"
        f"londiste -c {leaf}.toml add-table {' '.join(tables)} --create --wait-sync\n"
    )


def fails(script: str) -> str:
    """A script that fails on the leaf: its column exists there."""
    return (
        sql("leaf1", f"alter table orders add {script} text")
        + f"londiste -c root.toml execute --sql 'alter table orders add {script} text'"
        f" --name {script}\n"
        f"until_ 'londiste -c root.toml execute status | grep -E \"^{script} +leaf1 +failed\"'\n"
    )


SHOP = sql("root", ORDERS, ROWS, SALES)

PAGES = (
    Page(
        "docs/howto/add-a-table.md",
        nodes=PAIR,
        given=SHOP,
        before={
            "--find-copy-node": "londiste -c leaf.toml remove-table orders\n"
            + sql("leaf", "drop table orders"),
            "resync orders": "londiste -c leaf.toml wait-sync",
        },
        files={"register_only_tables": ">>leaf.toml"},
    ),
    Page(
        "docs/howto/cascade-runbook.md",
        nodes={"root": None, "branch1": "root", "branch2": "root", "leaf1": "branch1"},
        stays=("status --watch",),
    ),
    Page(
        "docs/howto/change-a-table.md",
        nodes=PAIR,
        given=sql("root", "create table orders (id int primary key, number int not null default 0)")
        + replicated("orders"),
        before={
            "drop column note": "londiste -c leaf.toml wait-root",
            "add primary key (number)": sql(
                "leaf", "alter table orders drop constraint orders_pkey, add primary key (number)"
            ),
        },
        then=sql("root", "insert into orders values (2, 7)")
        + "is leaf 'select * from orders' '2.7'\nlondiste -c leaf.toml compare",
    ),
    Page(
        "docs/howto/choose-a-form.md",
        nodes={"root": None},
        given=SHOP
        + sql(
            "root",
            "create schema app; create table app.orders (id int primary key);"
            " create table app.readings (id int primary key); alter table orders add note text;"
            " create function add_note(int) returns void language sql as"
            " $$ update orders set note = 'paid' where id = $1 $$",
        ),
    ),
    Page(
        "docs/howto/coming-from-londiste.md",
        nodes=PAIR,
        given=SHOP
        + "printf '[londiste]\\ndb = service=root\\nqueue_name = shop\\n' > root.ini\n"
        + "londiste -c root.toml add-table orders --trigger logutriga\n",
        not_run={
            "install --adopt": "needs the extensions of Londiste 3; tests/upgrade",
            "londiste leaf.ini worker": "needs the workers of Londiste 3; tests/upgrade",
        },
    ),
    Page(
        "docs/howto/compare.md",
        nodes=PAIR,
        given=SHOP
        + sql("root", "create table items (id int primary key, price numeric)")
        + sql("root", "insert into items select g, 10 from generate_series(1, 20) g")
        + replicated("orders", "items", "sales.visits")
        + "londiste -c root.toml export > londiste.toml\n",
        files={"audit_share": ">>londiste.toml"},
        before={
            "repair public.items --plan": sql(
                "leaf",
                "set session_replication_role = replica",
                "delete from items where id = 17",
                "update items set price = 9 where id = 20",
            ),
        },
        stays=("compare --continuous$",),
        codes={"repair public.items --plan": 3},
        then="has leaf 'select price from items where id = 20' 10",
    ),
    Page(
        "docs/howto/copy-a-large-table.md",
        nodes=PAIR,
        given=sql(
            "root",
            "create schema app; create table app.events (id int primary key, what text)",
            "insert into app.events select g, 'x' from generate_series(1, 1000) g",
        )
        + sql("leaf", "create schema app; create table app.events (id int primary key, what text)")
        + "londiste -c root.toml add-table app.events\n",
        before={"resync app.events": "londiste -c leaf.toml wait-sync"},
        then="londiste -c leaf.toml wait-sync; londiste -c leaf.toml compare",
    ),
    Page(
        "docs/howto/create-tables.md",
        nodes=PAIR,
        given=SHOP + "londiste -c root.toml add-table 'sales.*'",
    ),
    Page(
        "docs/howto/errors-at-apply.md",
        nodes=PAIR,
        given=SHOP
        + replicated("orders")
        + sql("leaf", "set session_replication_role = replica", "delete from orders where id = 5")
        + sql("root", "update orders set state = 'paid' where id = 5")
        + "is leaf 'select event_id from londiste.apply_error' .\n",
        before={
            "--on-error keep_local": sql(
                "leaf",
                "set session_replication_role = replica",
                "insert into orders (id) values (5)",
            )
            + "londiste -c leaf.toml events retry\n"
            "is leaf 'select state from orders where id = 5' paid\n"
            "londiste -c leaf.toml remove-table orders",
        },
        other_output={"events show": "a choice less, and the row is another"},
        names={"--id 4711": "--id 1"},
    ),
    Page(
        "docs/howto/execute.md",
        nodes={"root": None, "leaf1": "root"},
        given=SHOP + replicated("orders", leaf="leaf1"),
        before={
            "execute status": "londiste -c leaf1.toml wait-root",
            "execute retry": fails("one") + sql("leaf1", "alter table orders drop one"),
            "execute skip": fails("two"),
            "execute mark-done": fails("three"),
        },
        names={
            "execute retry add-note.sql": "execute retry one",
            "execute skip add-note.sql": "execute skip two",
            "execute mark-done add-note.sql": "execute mark-done three",
        },
    ),
    Page(
        "docs/howto/follow.md",
        nodes=PAIR,
        given=SHOP,
        files={"auto_add_tables": ">>leaf.toml"},
        then="londiste -c leaf.toml worker -r\nlondiste -c root.toml add-table 'sales.*' orders\n"
        "is leaf 'select count(*) from orders' 20\nlondiste -c leaf.toml wait-sync",
    ),
    Page(
        "docs/howto/foreign-keys.md",
        nodes=PAIR,
        given=SHOP
        + sql("root", "create table lines (id int primary key, order_id int references orders)")
        + "londiste -c root.toml add-table orders lines\n"
        "londiste -c leaf.toml add-table orders lines --create-full --wait-sync\n",
        other_output={"londiste -c leaf.toml fkeys": "shows the moment of a copy"},
    ),
    Page(
        "docs/howto/handlers.md",
        nodes={"root": None, "leaf": "root", "leaf0": "root"},
        given=SHOP
        + sql(
            "root",
            "create table log (id int primary key); alter table orders add notes text;"
            " create table people (id int primary key, mail text, paid int, doc jsonb)",
        )
        + "londiste -c root.toml add-table orders log people\n"
        + sql("leaf", "create table log (id int primary key)", ORDERS)
        + sql("leaf", "alter table orders add notes text")
        + sql("leaf0", ORDERS)
        + sql("leaf0", "alter table orders add notes text")
        + sql("leaf", "create table people (id int primary key, mail text, paid bool, doc jsonb)"),
        before={
            "--handler applyfn": "londiste -c leaf.toml wait-sync\n"
            "londiste -c leaf.toml remove-table orders",
        },
        names={'obfuscator_key = "…"': 'obfuscator_key = "secret of the leaf"'},
        files={"obfuscator_key": ">>leaf.toml", "handler_modules": ">>leaf0.toml"},
        sql={"create function app.on_order": "leaf"},
        then="londiste -c leaf.toml wait-sync\n"
        + sql("root", "update orders set state = 'paid' where id = 3")
        + "is leaf 'select change from app.order_log' paid\n"
        "touch myapp/__init__.py; export PYTHONPATH=$PWD\n"
        "londiste -c leaf0.toml change-handler orders --handler region --handler-arg name=eu",
    ),
    Page(
        "docs/howto/keep-some-rows.md",
        nodes=PAIR,
        given=SHOP
        + sql(
            "root",
            "create table customers (id int primary key, phone text, birthday date);"
            " create table items (id int primary key, order_id int, price numeric)",
        )
        + "londiste -c root.toml add-table orders customers items\n"
        + sql(
            "leaf",
            ORDERS,
            "create table customers (id int primary key, phone text, birthday date);"
            " create table items (id int primary key, order_id int, price numeric)",
        ),
        before={"change-handler orders --where": "londiste -c leaf.toml wait-sync"},
        then="londiste -c leaf.toml wait-sync; londiste -c leaf.toml compare",
    ),
    Page(
        "docs/howto/monitor.md",
        nodes=PAIR,
        given=SHOP
        + replicated("orders")
        + "londiste -c root.toml export > londiste.toml\nmkdir textfile\n",
        names={"/var/lib/node_exporter": "{dir}"},
        files={"[run]": ">>londiste.toml"},
        then="grep -q ^londiste_ textfile/londiste.prom\ntest -s londiste.rules.yml\n"
        "test -s londiste.json",
    ),
    Page(
        "docs/howto/multimaster.md",
        installed=("east", "west"),
        given='for one in east west; do printf \'[londiste]\\ndb = "service=%s"\\n'
        'queue_name = "%s"\\n\' $one $one > $one.toml\n'
        'londiste -c $one.toml create-root $one "service=$one"; done\n'
        "for two in 'west east' 'east west'; do set -- $two\n"
        'printf \'[londiste]\\ndb = "service=%s"\\nqueue_name = "%s"\\njob_name = "%s_of_%s"\\n\''
        " $1 $2 $1 $2 > $1_of_$2.toml\n"
        'londiste -c $1_of_$2.toml create-leaf $1 "service=$1" --provider "service=$2"; done\n'
        "londiste ticker --db service=east --db service=west > ticker.out 2>&1 &\n"
        "londiste -c west_of_east.toml worker > we.out 2>&1 &\n"
        "londiste -c east_of_west.toml worker > ew.out 2>&1 &\n"
        + "".join(
            sql(one, "create table accounts (id int primary key, v text, modified timestamptz)")
            for one in ("east", "west")
        ),
        then="londiste -c west_of_east.toml wait-sync; londiste -c east_of_west.toml wait-sync\n"
        + sql("east", "insert into accounts values (1, 'a', now())")
        + sql("west", "insert into accounts values (2, 'b', now())")
        + "is west 'select count(*) from accounts' 2; is east 'select count(*) from accounts' 2",
    ),
    Page(
        "docs/howto/partition-archive.md",
        nodes={"root": None, "archive": "root"},
        given=SHOP + "londiste -c root.toml add-table orders\n" + sql("archive", ORDERS),
        before={"change-handler": "londiste -c archive.toml wait-sync"},
        names={"(check (at >=": "(check (created >=", "and at <": "and created <"},
        then="londiste -c archive.toml wait-sync\n"
        + sql("root", "insert into orders (id) values (99)")
        + "is archive \"select count(*) from pg_class where relname like 'orders_2%'\" 1",
    ),
    Page(
        "docs/howto/partitioned-tables.md",
        nodes={"root": None, "leaf": "root", "archive": "root"},
        given="".join(
            sql(
                node,
                "create schema app; create table app.measures (id int, y int, primary key (id, y))"
                " partition by list (y)",
                *(
                    f"create table app.measures_{name} partition of app.measures for values in ({y})"
                    for name, y in (("2023", 2023), ("2024", 2024), ("2024_11", 11))
                ),
            )
            for node in ("root", "leaf", "archive")
        ),
        before={
            "measures_2023 app.measures_2024": "londiste -c leaf.toml wait-sync\n"
            "londiste -c root.toml remove-table app.measures\n"
            "londiste -c leaf.toml wait-root",
            "archive.toml remove-table": "londiste -c archive.toml wait-sync",
        },
    ),
    Page(
        "docs/howto/queue-from-a-table.md",
        nodes=PAIR,
        given=SHOP
        + sql("root", "create table mails (id int primary key, text text)")
        + "londiste -c root.toml add-table orders",
        then=sql("root", "insert into mails values (1, 'x')", "insert into orders (id) values (99)")
        + "is leaf 'select count(*) from pgq.event_1' 1\n"
        "has root 'select count(*) from mails' 0",
    ),
    Page(
        "docs/howto/sequences.md",
        nodes=PAIR,
        given=SHOP
        + sql("root", "create sequence invoice_numbers", "create sequence sales.numbers")
        + sql("leaf", "create schema sales"),
        names={"QUEUE": "shop"},
        sql={"root_exact_seqs": "root"},
    ),
    Page(
        "docs/howto/watch-a-copy.md",
        nodes=PAIR,
        given=SHOP + replicated("orders"),
        stays=("copy status --watch",),
        files={"copy_max_source_sessions": ">>leaf.toml"},
        then="londiste -c leaf.toml copy status",
    ),
)
