"""Pages about whole moves: the first hour, topologies, migrations, other programs."""

from __future__ import annotations

from tests.support.pages.cascades import ORDERS, ROWS, SHOP, replicated, sql
from tests.support.pages.plan import Page
from tests.support.pages.queues import CHECKOUT

OLD = "host=old.example dbname=shop user=repl"
NEW = "host=new.example dbname=shop user=repl"
SERIAL = "create table orders (id serial primary key, what text)"
HUNDRED = "insert into orders (what) select 'x' from generate_series(1, 100)"

#: A replication is in sync, and Ctrl-C ends it; then nothing is left of it.
PAIR = "londiste replicate service=shop_old service=shop_new"
SYNC = f"until_ '{PAIR} --status | grep \"in sync, \"'\n"
STOP = f"{SYNC}kill -INT %%; wait %% || test $? = 130\n"
REMOVE = f"{PAIR} --remove --drop-tables\n"

#: The new server has an empty database again.
FRESH = (
    'psql -Xq -d "service=shop_new dbname=postgres" -c "drop database shop_new with (force)"'
    ' -c "create database shop_new"\n'
)

#: A table is created, and a node moves to another provider in the file.
INVOICES = sql("main", "create table invoices (id int primary key)") + (
    'sed -i \'s/^provider = "standby"/provider = "main"/\' londiste.toml\n'
)


def lost(node: str) -> str:
    """The server of a node fails."""
    return (
        f"londiste -c {node}.toml worker -s\n"
        f"psql -Xq -c 'alter database {node} allow_connections false' -c \"select"
        f" pg_terminate_backend(pid) from pg_stat_activity where datname = '{node}'\" postgres\n"
    )


def back(node: str) -> str:
    """It is back."""
    return f"psql -Xqc 'alter database {node} allow_connections true' postgres\n"


ITEMS = "create table items (id int primary key)"

#: The settings files of the page about merging: file, database, queue.
MERGE = {
    "s1": ("s1", "p1"),
    "s2": ("s2", "p2"),
    **{f"{db}_{queue}": (db, queue) for db in ("db1", "db2") for queue in ("all", "p1", "p2")},
    "part1": ("a1", "part1"),
    "part2": ("a2", "part2"),
    "part1_leaf": ("all", "part1"),
    "part2_leaf": ("all", "part2"),
}
MERGE_FILES = "".join(
    f'printf \'[londiste]\\ndb = "service={db}"\\nqueue_name = "{queue}"\\n'
    f'job_name = "{name}"\\n\' > {name}.toml\n'
    for name, (db, queue) in MERGE.items()
) + (
    "for one in s1 s2 part1 part2 all db1 db2; do\n"
    "case $one in part*|s*) file=$one;; all) file=part1_leaf;; *) file=${one}_all;; esac\n"
    "londiste -c $file.toml install; done\n"
    'for one in s1 s2; do londiste -c $one.toml create-root $one "service=$one"; done\n'
    "for n in 1 2; do\n"
    'londiste -c part$n.toml create-root part$n "service=a$n"\n'
    "londiste -c part$n.toml add-table orders\n"
    'londiste -c part${n}_leaf.toml create-leaf all "service=all" --provider "service=a$n"; done\n'
)
MERGE_DAEMONS = (
    "londiste ticker $(for one in s1 s2 db1 db2; do echo --db service=$one; done) > t.out 2>&1 &\n"
    "for one in db1_all db1_p1 db1_p2 db2_all db2_p1 db2_p2; do\n"
    "londiste -c $one.toml worker > $one.out 2>&1 & done\n"
)

PAGES = (
    Page(
        "README.md",
        empty=("shop_old", "shop"),
        elsewhere=("shop_new",),
        given=sql("shop_old", SERIAL, HUNDRED),
        names={
            OLD: "service=shop_old",
            NEW: "service=shop_new",
            "host=shop.example dbname=shop user=app": "service=shop",
        },
        stays=("^londiste replicate ",),
        before={
            "cat > root.toml": STOP + REMOVE,
        },
        not_run={"make demo": CHECKOUT, "make test": CHECKOUT},
        then="has shop_new \"select pg_get_serial_sequence('orders', 'id')\" public.orders_id_seq",
    ),
    Page(
        "docs/quickstart.md",
        empty=("shop_old",),
        elsewhere=("shop_new", "shop_third"),
        given=sql(
            "shop_old",
            "create table orders (id int primary key, tenant int default 7)",
            "insert into orders values (1)",
            "create schema sales; create table sales.lines (id int primary key, tenant int)",
        ),
        names={
            f'"{OLD}"': "service=shop_old",
            f'"{NEW}"': "service=shop_new",
            "SOURCE TARGET": "service=shop_old service=shop_new",
            "TARGET2": "service=shop_third",
        },
        stays=(
            '^londiste replicate "host',
            r"^londiste replicate SOURCE TARGET ('sales|--exclude|--schema|--where|--also|--queues|--save)",
        ),
        before={
            "TARGET 'sales.*' public.orders": STOP + REMOVE,
            "TARGET --exclude": STOP + REMOVE,
            "TARGET --schema": STOP + REMOVE,
            "TARGET --where": STOP + REMOVE,
            "TARGET --also": STOP + REMOVE,
            "TARGET --queues": STOP
            + REMOVE.replace(" --remove", " --also service=shop_third --remove"),
            "TARGET --once": STOP + REMOVE,
            "TARGET --detach": STOP,
            "TARGET --remove  ": "until_ 'test -z \"$(jobs -r)\"'",
        },
        not_run={
            "londiste demo": "takes a minute; tests/unit/demo and make demo run it",
            "create role pgq_reader": "the roles are there: the server of the tests has them",
        },
        patience=300,
    ),
    Page(
        "docs/howto/several-queues.md",
        empty=("shop_old",),
        elsewhere=("shop_new",),
        given=sql(
            "shop_old",
            "create table orders (id int primary key); insert into orders values (1)",
            "create table pages (id int primary key); insert into pages values (1)",
        ),
        names={
            "SOURCE TARGET": PAIR.removeprefix("londiste replicate "),
            " shop_2 ": " shop_old_2 ",
        },
        stays=("TARGET --queues 2 --save", r"^londiste -c shop(_2)?\.toml run"),
        before={
            "TARGET --status": SYNC,
            "TARGET --stop": f"{FRESH}{PAIR} --queues 2 --detach\n",
            "TARGET --queues 2 --save": f"{PAIR} --remove\n{FRESH}",
            "-c shop.toml run": STOP,
        },
        then=f"{SYNC}psql -Xqc 'insert into orders values (2)' -c 'insert into pages values (2)'"
        " shop_old\n"
        "is shop_new 'select count(*) from orders' 2\nis shop_new 'select count(*) from pages' 2",
    ),
    Page(
        "docs/first-hour.md",
        empty=("shop_old", "shop"),
        elsewhere=("shop_new",),
        given=sql("shop_old", SERIAL, HUNDRED),
        names={
            OLD: "service=shop_old",
            NEW: "service=shop_new",
            'python greeter.py --db "dbname=shop" &': "python greeter.py --db dbname=shop"
            " > greeter.out &",
        },
        stays=("^londiste replicate ", "migrate run --switch"),
        before={
            "migrate run": STOP + REMOVE,
            "migrate back": "until_ 'londiste migrate status --from service=shop_old"
            " --to service=shop_new | grep switched'\n"
            + sql("shop_new", "insert into orders (what) values ('new')"),
            "migrate finish": "is shop_old 'select count(*) from orders' 101\n"
            "londiste migrate switch --from service=shop_old --to service=shop_new",
        },
        then="psql -Xqc \"select pgq.insert_event('signups', 'new', 'anna')\" shop\n"
        "until_ 'grep -q hello.anna greeter.out'",
    ),
    Page(
        "docs/howto/coming-from-skytools.md",
        empty=("userdb", "foodb"),
        given="psql -Xqc 'create table users (id int primary key, name text, password text,"
        " active bool)' -c \"insert into users values (1, 'anna', 'x', true)\" userdb",
        names={" host=master": "", " host=slave": ""},
        before={
            "create trigger welcome_user_trg": "londiste queue create notifications --db"
            " service=userdb\nlondiste queue create dstqueue --db service=userdb",
        },
        then="is foodb 'select name from users' anna\nlondiste -c replic.ini status",
    ),
    Page(
        "docs/howto/coming-from-pgq.md",
        installed=("shop",),
        given="londiste queue create orders --db service=shop\n"
        "londiste queue register orders mailer --db service=shop\n",
        before={
            "pg_dump -Fc": "psql -XAt -f note.sql shop > queues.sql",
            "londiste install pgq pgq_coop": "psql -Xqc 'drop schema pgq, pgq_coop, pgq_node,"
            " pgq_ext, londiste cascade' shop",
        },
        not_run={"drop extension": "needs the extension of PgQ, which is no Python package"},
        then="has shop 'select * from pgq.get_consumer_info()' mailer",
    ),
    Page(
        "docs/howto/restore-a-queue.md",
        elsewhere=("shop",),
        given="londiste install --db service=shop\nlondiste queue create q --db service=shop\n"
        "londiste queue register q c --db service=shop\n"
        "export OLD=$(sed -n s/^host=//p .services)",
        names={"-h old": '-h "$OLD"', "-h new ": "", "host=new dbname=shop": "dbname=shop"},
        stays=("londiste ticker",),
        then="has shop 'select 1' 1; psql -Xqc 'drop database shop with (force)' postgres",
    ),
    Page(
        "docs/howto/merge.md",
        empty=("s1", "s2", "db1", "db2", "a1", "a2", "all"),
        given="".join(
            sql(one, "create table orders (id int, region text, primary key (region, id))")
            for one in ("s1", "s2", "db1", "db2", "a1", "a2", "all")
        )
        + MERGE_FILES
        + sql("s1", "insert into orders values (1, 'eu')")
        + sql("s2", "insert into orders values (1, 'us')"),
        names={
            "host=all dbname=shop": "service=all",
            "host=s1 dbname=shop": "service=s1",
            "host=s2 dbname=shop": "service=s2",
            "host=db1 dbname=app": "service=db1",
            "host=db2 dbname=app": "service=db2",
        },
        before={
            "at each source": MERGE_DAEMONS,
            "# copies it from database 1": "londiste -c db1_p1.toml wait-sync\n"
            "londiste -c db1_p2.toml wait-sync",
            "# database 2 is": "londiste -c db2_all.toml wait-sync\n",
        },
        patience=300,
    ),
    Page(
        "docs/howto/one-file.md",
        empty=("main", "standby", "reports"),
        nodes={"root": None, "leaf": "root"},
        given=sql("main", ORDERS, ROWS, "create table audit (id int primary key)")
        + SHOP
        + replicated("orders"),
        names={
            "host=main dbname=shop": "service=main",
            "host=standby dbname=shop": "service=standby",
            "host=reports dbname=shop": "service=reports",
        },
        files={"[queue]": "londiste.toml"},
        codes={"londiste plan ": 2, "londiste plan\n": 2},
        before={
            "londiste plan\n": INVOICES,
            "londiste run   ": "londiste run -s",
            "londiste run -d   ": 'is main "select application_name from pg_stat_activity'
            " where datname = 'reports'\" worker\n"
            "kill -INT %%; wait %% || test $? = 130",
            "londiste run --node": "londiste run -s",
        },
        stays=("^londiste run$", "run --node reports$"),
    ),
    Page(
        "docs/howto/upgrade-postgresql.md",
        empty=("shop_new",),
        elsewhere=("shop_old",),
        sql={"default_transaction_read_only": "shop_old"},
        given=sql("shop_old", SERIAL, HUNDRED),
        names={
            "host=old.example dbname=shop user=shop_owner": "service=shop_old",
            "host=new.example dbname=shop user=shop_owner": "service=shop_new",
            "alter database shop set": "alter database shop_old set",
        },
        stays=("migrate start$", "migrate run"),
        before={
            "londiste migrate verify": 'until_ "londiste migrate status'
            " | grep -E 'phase +(in step|switched)'\"",
            "londiste migrate run --switch": FRESH,
            "[migrate]": "until_ \"londiste migrate status | grep -E 'phase +switched'\"\n"
            "londiste migrate finish\n" + FRESH,
        },
        files={"[migrate]": "move.toml"},
    ),
    Page(
        "docs/consumers/cascade-node.md",
        nodes={"root": None, "leaf": "root"},
        given=sql(
            "root", "create schema if not exists x", "create table products (id int primary key)"
        )
        + "londiste -c root.toml add-table products\n",
        stays=('search.py --db "dbname=leaf"$',),
        then=sql("root", "insert into products values (1)")
        + "is leaf 'select change from to_index' id",
    ),
    Page(
        "docs/howto/change-the-cascade.md",
        nodes={
            "root": None,
            "branch": "root",
            "branch1": "root",
            "branch2": "root",
            "leaf": "branch1",
            "leaf2": "branch",
            "leaf3": "branch",
            "leaf4": "branch2",
            "far": "branch",
            "far1": "far",
            "far2": "far",
        },
        given=SHOP + "cat > reports.py <<'PY'\nimport londiste\n\n\n"
        "class Reports(londiste.CascadedConsumer):\n"
        "    queue = 'shop'\n    name = 'reports'\n\n"
        "    def process_event(self, event, ctx):\n        pass\n\n\nReports.main()\nPY\n"
        "python reports.py --db service=leaf --register\n"
        "python reports.py --db service=leaf > reports.out 2>&1 &\n"
        # Only these two keep a table: a new provider has no other rows of it.
        + sql("root", ITEMS)
        + sql("branch", ITEMS)
        + "londiste -c root.toml add-table items\nlondiste -c branch.toml wait-root\n"
        "londiste -c branch.toml add-table items --expect-sync\n",
        before={
            # Interrupted, and finished; interrupted again, and undone.
            "# finish it": "londiste -c any.toml switchover --to root\n"
            "LONDISTE_CRASH=plan.after-step:2 londiste -c any.toml switchover --to branch || true",
            "# undo it": "londiste -c any.toml switchover --to root\n"
            "LONDISTE_CRASH=plan.after-step:1 londiste -c any.toml switchover --to branch || true",
            "takeover root --failover": "cp branch2.toml any.toml\n" + lost("root"),
            "takeover branch1 --failover": lost("branch1"),
            # An application reaches the old root before it is closed.
            "resurrect --dry-run": back("root") + sql("root", "insert into items values (1)"),
        },
        codes={"# close the node": 3},
        patience=300,
    ),
)
