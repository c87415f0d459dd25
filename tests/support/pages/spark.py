"""Pages about Spark: programs, lakes and files."""

from __future__ import annotations

from tests.support.pages.cascades import ORDERS, PAIR, ROWS, SHOP, replicated, sql
from tests.support.pages.plan import Page
from tests.support.pages.queues import TICKER

#: A cluster that the tests do not have.
CLUSTER = "needs the hosts of a cluster; tests/scenarios/copy runs one of this host"
LAKE = {"/lake/": "{dir}/lake/"}
#: A root in database shop, its queue shop, with a table.
ONE = sql("shop", ORDERS, ROWS) + "londiste -c shop.toml add-table orders\nmkdir lake\n"
#: Changes behind the newest tick.
CHANGES = sql("shop", "update orders set region = 'north' where id < 5")

PAGES = (
    Page(
        "docs/howto/spark.md",
        nodes=PAIR,
        given=SHOP + replicated("orders"),
        names={"spark://master:7077": "local[2]"},
        files={
            'engine = "spark"': "engine.toml",
            '"driver.memory"': ">>leaf.toml",
            'archives = "environment': "archives.toml",
            '[spark]\nmaster = "spark://master:7077"\n': "cluster.toml",
        },
        patience=300,
    ),
    Page(
        "docs/howto/spark-cluster.md",
        files={"cores.max": "cluster.toml"},
        not_run={
            "python3 -m venv /opt/executor": CLUSTER,
            "/opt/executor/bin/pip install": CLUSTER,
            "spark=$(": CLUSTER,
            "$spark/bin/spark-class": CLUSTER,
        },
    ),
    Page(
        "docs/howto/spark-streams.md",
        nodes={"shop": None},
        given=ONE + sql("shop", "create table items (id int primary key)"),
        names=LAKE,
        not_run={
            "create or replace temporary view": "SQL of Spark; tests/engine/stream/test_tables.py"
        },
        then="has shop 'select consumer_name from pgq.get_consumer_info()' orders_to_lake\n"
        "ls lake/orders_now/*.parquet",
        patience=300,
    ),
    Page(
        "docs/howto/spark-backfill.md",
        nodes={"shop": None},
        given=ONE + CHANGES + "is shop 'select last_tick_id > 3 from pgq.get_queue_info()' t\n",
        names={
            **LAKE,
            "47100": "1",
            'startingTimestamp="2026-03-01T00:00:00Z", endingTick=48210': "startingTick=1",
        },
        then="ls lake/orders_of_the_day/*.parquet",
        patience=300,
    ),
    Page(
        "docs/howto/spark-enqueue.md",
        nodes={"shop": None},
        given=ONE
        + "londiste -c shop.toml queue create alarms\nmkdir lake/alarms\n"
        + """echo '{"id": 1, "text": "fire"}' > lake/alarms/1.json\n""",
        names=LAKE,
        then="is shop 'select count(*) from pgq.event_2' 2",
        patience=300,
    ),
    Page(
        "docs/howto/spark-tables.md",
        nodes={"shop": None},
        installed=("mart",),
        given=ONE
        + sql(
            "mart", ORDERS, "create schema mart; create table mart.order_items (id int primary key)"
        )
        + sql("shop", "create table items (id int primary key)")
        + "londiste -c shop.toml add-table items\n"
        # Changes that come after the start of the consumers.
        + "londiste queue register shop orders_to_mart --db service=shop\n"
        + "londiste queue register shop mart --db service=shop\n"
        + CHANGES
        + "londiste -c shop.toml tick\n",
        names=LAKE,
        then="""has mart "select count(*) from orders where region = 'north'" 4\n"""
        "has mart 'select count(*) from pgq_ext.sink' 2",
        patience=300,
    ),
    Page(
        "docs/howto/lake.md",
        nodes={"shop": None},
        given=ONE
        + sql("shop", "create table customers (id int primary key)")
        + "londiste -c shop.toml add-table customers\nexport TICK=1\n",
        names={
            "/lake/": "{dir}/lake/",
            "--tick 4711": "--tick $TICK",
            "tick=4711": "tick=int(__import__('os').environ['TICK'])",
        },
        stays=("lake run$",),
        not_run={
            "pip install": "the environment of the tests has it",
            "s3://shop-lake": "needs an object store; tests/engine/test_lake_s3.py has one",
        },
        before={
            "lake status ": "until_ 'londiste -c lake.toml lake status'",
            "from pyspark": "TICK=$(londiste -c lake.toml lake status --json"
            """ | python -c 'import json, sys; print(json.load(sys.stdin)["tables"][0]["tick"])')\n""",
            "lake compact": "kill -INT %1; wait %1 || test $? = 130",
        },
        patience=300,
    ),
    Page(
        "docs/howto/dispatch.md",
        installed=("shop",),
        empty=("archive",),
        given=TICKER
        + "londiste queue create orders --db service=shop\n"
        + sql(
            "shop",
            "create table orders (id int primary key, created timestamptz default now(), customer text)",
            "create table payment (id int primary key, created timestamptz default now())",
            "select londiste.create_capture('orders', 'public.orders')",
            "select londiste.create_capture('orders', 'public.payment')",
        )
        + sql(
            "archive",
            "create schema archive",
            "create table archive.orders (id int primary key, created timestamptz, buyer text)",
            "create table orders (id int primary key, created timestamptz, customer text)",
            "create table payment (id int primary key, created timestamptz)",
        ),
        files={"[table public.orders]": ">>to_archive.ini", "engine = spark": ">>to_archive.ini"},
        names={"= /archive": "= {dir}/archive", "spark://cluster:7077": "local[2]"},
        stays=(r"\.ini dispatch$",),
        before={
            "[table public.orders]": sql("shop", "insert into orders (id) values (1)")
            + "is archive 'select id from orders' 1\nkill -INT %2; wait %2 || test $? = 130",
            "dispatch --files": sql("shop", "insert into orders (id) values (2)")
            + "until_ 'londiste -c archive.ini dispatch --files | grep parquet'",
        },
        then="londiste -c to_archive.ini dispatch --once\n"
        + "has archive 'select id from archive.orders' 2",
        patience=300,
    ),
)
