"""Pages about queues, consumers and the ticker: one database with Londiste's SQL."""

from __future__ import annotations

from tests.support.pages.plan import Page

#: Ticks, as a ticker of the reader makes them.
TICKER = "londiste ticker --db service=shop > ticker.out 2>&1 &\n"
#: What an application has inserted, and a tick behind it.
CHECKOUT = "needs a checkout; tests/docs runs the targets of make, and both wheels are tested"


def tick(queue: str) -> str:
    """A tick, and nothing is waited for."""
    return f"""psql -Xqc "select pgq.force_tick('{queue}')" -c 'select pgq.ticker()' shop\n"""


def event(queue: str, *fields: str) -> str:
    """An event of an application."""
    values = ", ".join(f"'{field}'" for field in (queue, *fields))
    values += ", null" * (6 - len(fields) if len(fields) > 2 else 0)
    return f"""psql -Xqc "select pgq.insert_event({values})" shop\n"""


def chapter(name: str, program: str, queue: str, *fields: str, result: str, **more: object) -> Page:
    """A chapter about a delivery contract: its consumer gets an event and has an effect."""
    return Page(
        f"docs/consumers/{name}.md",
        installed=("shop", *more.pop("installed", ())),  # type: ignore[misc]
        given=TICKER,
        stays=(rf"^python {program} .*(?<!--register)$",),
        then=event(queue, *fields) + result,
        **more,  # type: ignore[arg-type]
    )


PAGES = (
    Page(
        "docs/quickstart-queue.md",
        empty=("shop",),
        before={
            "python signup.py": "until_ 'grep -q waiting.for.signups greeter.out'",
            "londiste queue consumers": "is shop 'select * from greeting' anna@example.com",
        },
        names={"python greeter.py &": "python greeter.py > greeter.out &"},
        then="grep -q 'hello anna@example.com' greeter.out",
    ),
    Page(
        "docs/howto/write-a-consumer.md",
        empty=("shop",),
        stays=(r'python greeter.py --db "dbname=shop"$',),
        then="has shop 'select consumer_name from pgq.get_consumer_info()' greeter\n"
        "has shop \"select count(*) from pgq.get_queue_info('signups') where ev_new = 4\" 1\n",
    ),
    Page(
        "docs/howto/queue.md",
        empty=("shop",),
        given="psql -qc 'create role shop_web' -c 'create role shop_mail' shop",
        names={"1234": "1", "--from 70 --to 75": "--from 1 --to 2"},
        before={"--batch 1234": "is shop \"select pgq.next_batch('orders', 'mailer')\" 1"},
        then="psql -qc 'drop owned by shop_web' -c 'drop role shop_web' -c 'drop role shop_mail'"
        " shop",
    ),
    Page(
        "docs/howto/queue-status.md",
        installed=("shop",),
        given=TICKER + "londiste queue create orders --db service=shop",
        before={"queue status   ": "is shop 'select * from pgq.tick' 2"},
    ),
    Page(
        "docs/howto/shell.md",
        installed=("shop",),
    ),
    Page(
        "docs/howto/bulk-insert.md",
        installed=("shop",),
        given="londiste queue create q --db service=shop",
        then="has shop 'select count(*) from pgq.event_1' 11",
    ),
    Page(
        "docs/howto/dead-letters.md",
        installed=("shop",),
        given="londiste queue create q --db service=shop\n"
        "londiste queue register q consumer --db service=shop\n"
        "psql -Xqc 'select pgq.seq_setval(queue_event_seq, 4710) from pgq.queue' shop\n"
        "psql -Xqc \"select setval('pgq.batch_id_seq', 16)\" shop\n"
        + event("q", "new", "x") * 4
        + tick("q")
        + "has shop \"select pgq.next_batch('q', 'consumer')\" 17",
        before={
            "select pgq.set_queue_config": "psql -Xqc 'select pgq.event_failed(17, ev, $$no$$)"
            " from generate_series(4712, 4714) ev' -c 'select pgq.finish_batch(17)' shop"
        },
    ),
    Page(
        "docs/howto/delayed-events.md",
        installed=("shop",),
        given="londiste queue create q --db service=shop",
    ),
    Page(
        "docs/howto/idempotent-producers.md",
        installed=("shop",),
        given="londiste queue create q --db service=shop",
    ),
    Page(
        "docs/howto/latency.md",
        installed=("shop",),
        given=TICKER
        + "londiste queue create orders --db service=shop\n"
        + "londiste queue register orders mailer --db service=shop\n",
        before={"import psycopg": "is shop 'select max(tick_id) from pgq.tick' '[2-9]'"},
    ),
    Page(
        "docs/howto/movers.md",
        installed=("shop", "archive", "regions", "reports"),
        given=TICKER
        + "londiste queue create orders --db service=shop\n"
        + "londiste queue create orders --db service=archive\n"
        + "londiste queue create north --db service=regions\n"
        + event("orders", "new", "a", "north")
        + "psql -Xqc 'create table payments (account text, amount numeric, event bigint)'"
        " -c 'create function add_payment(text, numeric, bigint) returns void language sql"
        " as $f$ insert into payments values ($1, $2, $3) $f$' reports\n"
        "psql -Xqc 'create table payment (account text primary key, amount numeric)'"
        ' -c "create trigger p after insert on payment for each row execute function'
        " pgq.jsontriga('orders')\" shop\n",
        stays=("--target-queue orders$", "queue splitter$", "simple-consumer$"),
        files={"parallel_apply_tasks": ">>by_region.toml"},
        names={"spark://cluster:7077": "local[2]"},
        then=event("orders", "new", "b", "north")
        + "is regions 'select ev_data from pgq.event_1' b\n"
        "is archive 'select ev_data from pgq.event_1' b\n"
        "psql -Xqc \"insert into payment values ('x', 5)\" shop\n"
        "is reports 'select amount from payments' 5\n",
    ),
    Page(
        "docs/howto/move-consumers.md",
        installed=("shop",),
        empty=("shop_new",),
        given=TICKER
        + "londiste queue create orders --db service=shop\n"
        + "londiste queue register orders billing mail --db service=shop\n",
        before={"londiste queue unregister orders billing": event("orders", "new", "x")},
        then="has shop_new 'select ev_data from pgq.event_1' x\n"
        "is shop_new 'select max(tick_id) > 1 from pgq.tick' t\n"
        "londiste --set pidfile=ticker.pid ticker --db service=shop_new -s",
    ),
    Page(
        "docs/howto/ticker.md",
        empty=("shop", "stock"),
        given="londiste install --db service=stock",
        names={
            "host=db2 dbname=stock user=ticker": "service=stock",
            "/run/londiste": "{dir}",
            "/var/log/londiste": "{dir}",
            "host=db1 user=ticker": "",
        },
        stays=('^londiste ticker --db "dbname=shop"$',),
        before={
            "# start in the background": "is shop 'select application_name from pg_stat_activity'"
            " ticker\nkill -INT %1; wait %1 || test $? = 130",
            "# read the settings again": "until_ 'test -e ticker.pid'",
            "# the same, by SIGTERM": "until_ '! test -e ticker.pid'\n"
            "londiste -c ticker.toml ticker -d; until_ 'test -e ticker.pid'",
            "set_queue_config": "londiste queue create orders --db dbname=shop",
        },
        not_run={
            "[Service]": "needs systemd",
            "| psql": "needs the extension pg_cron; tests/integration/commands/test_pg_cron_schedule",
        },
        then="londiste -c server.toml ticker --once",
    ),
    Page(
        "docs/howto/port-a-skytools-program.md",
        installed=("userdb",),
        given="londiste ticker --db service=userdb > ticker.out 2>&1 &\n"
        "londiste queue create notifications --db service=userdb\n",
        stays=("python welcome.py welcome.ini$",),
        before={
            "python welcome.py -d": "is userdb 'select * from pgq.get_consumer_info()' welcome_app\n"
            "psql -Xqc \"select pgq.insert_event('notifications', 'new', 'anna')\" userdb\n"
            "until_ 'grep -q Welcome.anna ~/log/welcome_app.log'\n"
            "kill -INT %2; until_ '! test -e ~/pid/welcome_app.pid'",
        },
        then="until_ 'test -e ~/pid/welcome_app.pid'\npython welcome.py -s welcome.ini\n"
        "python -c 'import pgq, skytools; pgq.Consumer, skytools.DBScript'",
    ),
    Page(
        "docs/howto/logging.md",
        installed=("shop", "logs"),
        names={"/etc/londiste": "{dir}", '"~/log/': '"{dir}/log/'},
        files={
            "log_config": "job.toml",
            "[formatters.json]": "log.toml",
            "logdatabase": ">>log.toml",
        },
        given="mkdir log",
        sql={"create schema log": "logs"},
        then='sed -i \'s/"syslog"]/"database"]/; /^.handlers.syslog/,/^$/d\' log.toml\n'
        "sed 's/.londiste./[ticker]/' job.toml > ticker.toml\n"
        "londiste -c ticker.toml ticker --db service=shop &\n"
        "until_ 'grep serving log/ticker.json'\n"
        "is logs 'select * from log.line' ticker\n",
    ),
    Page("docs/howto/tls.md"),
    Page(
        "docs/howto/poolers.md",
        not_run={},
    ),
    Page("docs/howto/install-the-program.md", not_run={"./client .": CHECKOUT}),
    Page(
        "docs/howto/embedded.md",
        stays=("python -m londiste.embedded",),
        other_output={"python -m londiste.embedded": "the directory is a new one each time"},
    ),
    Page("docs/howto/release.md", not_run={"make ": CHECKOUT}),
    Page(
        "docs/howto/tests.md",
        not_run={
            "make ": CHECKOUT,
            "pytest ": CHECKOUT,
            "python -m tests.nemesis ": CHECKOUT,
            "def test_a_new_queue_is_listed": "is a test of this repository",
        },
    ),
    chapter(
        "at-least-once",
        "cache.py",
        "pages",
        "t",
        "body",
        "page",
        result="is shop 'select * from cache' 'page.body'\n",
    ),
    chapter(
        "at-most-once",
        "rate.py",
        "clicks",
        "t",
        "a",
        result="is shop \"select pending_events from pgq.get_consumer_info('clicks')\" 0\n",
    ),
    chapter(
        "exactly-once-here",
        "balance.py",
        "payments",
        "t",
        "5",
        "anna",
        result="is shop \"select pending_events from pgq.get_consumer_info('payments')\" 0\n",
    ),
    chapter(
        "exactly-once-elsewhere",
        "copy_orders.py",
        "orders",
        "t",
        "one",
        result="is warehouse 'select * from orders' one\n",
        installed=("warehouse",),
    ),
    chapter(
        "once-per-event",
        "mailer.py",
        "mails",
        "t",
        "hello",
        "anna",
        result="is shop 'select * from sent' anna\n",
    ),
    chapter(
        "local-file",
        "archive.py",
        "orders",
        "t",
        "one",
        names={"/var/archive": "{dir}/archive"},
        result="until_ 'grep -q one archive/*.txt'\n",
    ),
    chapter(
        "cooperative",
        "resize.py",
        "pictures",
        "t",
        "1",
        result="is shop 'select * from pgq.get_consumer_info()' resize.one\n",
    ),
)
