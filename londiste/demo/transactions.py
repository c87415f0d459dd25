"""Transactions of the demo writer: difficult types, keys, cascades and rollbacks."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import psycopg

from londiste.demo.data import REGIONS, TOKENS

Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]
T = TypeVar("T")

_PRICE_LIST = '"Odd Names"."Price List v1.0 ""net"""'

_TEXTS = (
    *("", "NULL", "\\N", "\\.", "a'b\"c\\d", "two\nlines\r\n", "tab\tand, comma;", "{x,y}", "()"),
    *(
        "Grüße, Привет, こんにちは 👋",
        "%s %% %(x)s",
        "$1 $$ ${x}",
        "e" * 3000,
        "&=+%20",
        "  blanks  ",
    ),
)
_NUMBERS = ("0", "-0.00", "NaN", "1e40", "-1e-30", "123456789012345678901234567890.5", "1.10")
_MOMENTS = ("infinity", "-infinity", "1900-01-01 00:00:00.000001+05:17", "2024-02-29 23:59:59.9")


class RollBack(Exception):
    """Rolls back this transaction on purpose."""


def place_order(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """An order with lines, and perhaps a payment: four tables."""
    region = rnd.choice(REGIONS)
    cur.execute(
        "insert into shop.orders (region, customer, wanted) select %s, id, %s from shop.customers"
        " where id >= %s order by id limit 1 returning id",
        [region, _maybe(rnd, rnd.choice(_MOMENTS)), rnd.randrange(5000)],
    )
    row = cur.fetchone()
    if row is None:
        raise RollBack
    for line in range(1, rnd.randint(1, 5) + 1):
        cur.execute(
            """insert into shop."Order Lines" select %s, %s, %s, sku, %s, price, %s
            from shop.products where sku >= %s order by sku limit 1""",
            [region, row[0], line, rnd.choice(_NUMBERS), _text(rnd), _sku(rnd)],
        )
    if rnd.random() < 0.5:
        _pay(cur, rnd, region, row[0])
    counts["inserts"] += 3


def pay_order(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """A payment, and the state of its order."""
    region, order = _order(cur, rnd)
    _pay(cur, rnd, region, order)
    cur.execute(
        "update shop.orders set state = 'paid' where region = %s and id = %s", [region, order]
    )
    counts["inserts"] += 1
    counts["updates"] += cur.rowcount


def change_customer(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """Text, arrays and jsonb of some customers."""
    start = rnd.randrange(5000)
    cur.execute(
        "update shop.customers set name = %s, tags = %s, profile = profile || %s::jsonb,"
        " active = not active, email = %s where id between %s and %s",
        [
            _text(rnd) or "x",
            [_text(rnd) for _ in range(rnd.randint(0, 3))],
            json.dumps({_text(rnd) or "": [rnd.random(), None, {"token": token}]}),
            _maybe(rnd, f"c{token}@example.org"),
            start,
            start + rnd.randint(0, 3),
        ],
    )
    counts["updates"] += cur.rowcount


def change_product(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """Numbers, bytes and arrays of a product."""
    cur.execute(
        "update shop.products set price = %s, weight = %s, rating = %s, dimensions = %s,"
        " picture = %s where sku = %s",
        [
            rnd.randrange(10**6) / 100,
            rnd.choice(_NUMBERS),
            rnd.choice((rnd.random(), 1e300, 5e-324, float("-inf"), float("nan"))),
            [[1, rnd.randrange(99)], [None, -1]],
            _maybe(rnd, rnd.randbytes(rnd.choice((0, 10, 2500)))),
            _sku(rnd),
        ],
    )
    counts["updates"] += cur.rowcount


def rename_customer(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """A changed key, which foreign keys cascade to the orders."""
    cur.execute(
        "update shop.customers set id = nextval('shop.customer_number') where id ="
        " (select id from shop.customers where id >= %s order by id limit 1)",
        [rnd.randrange(6000)],
    )
    counts["key_updates"] += cur.rowcount


def move_order(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """Half of a composite key changed, cascaded to lines and payments."""
    region, order = _order(cur, rnd)
    cur.execute(
        "update shop.orders set region = %s where region = %s and id = %s",
        [rnd.choice(REGIONS), region, order],
    )
    counts["key_updates"] += cur.rowcount


def delete_order(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """A row, and by its foreign keys the dependent rows."""
    region, order = _order(cur, rnd)
    cur.execute("delete from shop.orders where region = %s and id = %s", [region, order])
    counts["deletes"] += cur.rowcount


def swap_keys(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """Two rows change places; one more is deleted and inserted with the same key."""
    first, second, third = sorted(rnd.sample(range(1, 501), 3))
    for old, new in ((first, -token % 2**30 - 2**30), (second, first)):
        cur.execute(f'update {_PRICE_LIST} set "Key" = %s where "Key" = %s', [new, old])  # noqa: S608
        counts["key_updates"] += cur.rowcount
    cur.execute(
        f'update {_PRICE_LIST} set "Key" = %s where "Key" = %s',  # noqa: S608
        [second, -token % 2**30 - 2**30],
    )
    cur.execute(f'delete from {_PRICE_LIST} where "Key" = %s', [third])  # noqa: S608
    cur.execute(
        f"insert into {_PRICE_LIST} values (%s, %s, %s, %s)",  # noqa: S608
        [third, _text(rnd), rnd.choice(_NUMBERS), [_text(rnd), None]],
    )
    counts["deletes"] += 1
    counts["inserts"] += 1


def write_tokens(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """The same token in the same slot of three tables, in any order of the tables."""
    slot = rnd.randint(1, TOKENS)
    # The first lock decides between two sessions, so that the order of the others is free.
    cur.execute("select from shop.token_a where slot = %s for update", [slot])
    statements = [
        "update shop.token_a set token = %s where slot = %s",
        "update shop.token_b set token = %s where slot = %s",
        "update shop.token_c set token = %s where slot = %s",
    ]
    rnd.shuffle(statements)
    for statement in statements:
        cur.execute(statement, [token, slot])
    counts["updates"] += 3


def replace_tokens(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """The same by deleting and inserting."""
    slot = rnd.randint(1, TOKENS)
    cur.execute("select pg_advisory_xact_lock(%s)", [slot])
    for statement in (
        "delete from shop.token_a where slot = %s",
        "delete from shop.token_b where slot = %s",
        "delete from shop.token_c where slot = %s",
    ):
        cur.execute(statement, [slot])
        counts["deletes"] += cur.rowcount
    for statement in (
        "insert into shop.token_c values (%s, %s)",
        "insert into shop.token_a values (%s, %s)",
        "insert into shop.token_b values (%s, %s)",
    ):
        cur.execute(statement, [slot, token])
    counts["inserts"] += 3


def bank(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """pgbench's own transaction."""
    delta, account = rnd.randint(-5000, 5000), rnd.randint(1, 100_000)
    teller, branch = rnd.randint(1, 10), 1
    for statement, key in (
        ("update public.pgbench_accounts set abalance = abalance + %s where aid = %s", account),
        ("update public.pgbench_tellers set tbalance = tbalance + %s where tid = %s", teller),
        ("update public.pgbench_branches set bbalance = bbalance + %s where bid = %s", branch),
    ):
        cur.execute(statement, [delta, key])
        counts["updates"] += cur.rowcount
    cur.execute(
        "insert into public.pgbench_history (tid, bid, aid, delta, mtime)"
        " values (%s, %s, %s, %s, now())",
        [teller, branch, account, delta],
    )
    counts["inserts"] += 1


def change_mind(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """A savepoint that is rolled back, then other work."""
    try:
        with cur.connection.transaction():
            place_order(cur, rnd, token, Counter())
            raise RollBack
    except RollBack:
        pass
    change_customer(cur, rnd, token, counts)


def give_up(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """A transaction that is rolled back as a whole."""
    place_order(cur, rnd, token, Counter())
    raise RollBack


def many_rows(cur: Cursor, rnd: random.Random, token: int, counts: Counter[str]) -> None:
    """Some hundred rows at once."""
    start = rnd.randrange(90_000)
    cur.execute(
        "update public.pgbench_accounts set abalance = abalance + 1, filler = %s"
        " where aid between %s and %s",
        [f"token {token}", start, start + rnd.randint(100, 400)],
    )
    counts["updates"] += cur.rowcount


Work: TypeAlias = Callable[[Cursor, random.Random, int, "Counter[str]"], None]

#: What a transaction may be, and how often.
WORK: dict[Work, int] = {
    place_order: 16,
    pay_order: 8,
    change_customer: 12,
    change_product: 8,
    rename_customer: 4,
    move_order: 5,
    delete_order: 6,
    swap_keys: 4,
    write_tokens: 12,
    replace_tokens: 5,
    bank: 14,
    change_mind: 3,
    give_up: 2,
    many_rows: 1,
}


def _order(cur: Cursor, rnd: random.Random) -> tuple[str, int]:
    """An existing order that no other session has locked."""
    cur.execute(
        "select region, id from shop.orders where region = %s and id >= %s"
        " order by region, id limit 1 for update skip locked",
        [rnd.choice(REGIONS), rnd.randrange(20_000)],
    )
    row = cur.fetchone()
    if row is None:
        raise RollBack
    return row[0], row[1]


def _pay(cur: Cursor, rnd: random.Random, region: str, order: int) -> None:
    cur.execute(
        "insert into shop.payments values (%s, %s, %s, %s, %s::timestamptz, %s::interval, %s)",
        [
            uuid.UUID(int=rnd.getrandbits(128)),
            region,
            order,
            rnd.choice(_NUMBERS),
            rnd.choice(_MOMENTS),
            _maybe(rnd, f"{rnd.randint(-20, 20)} months {rnd.randint(-40, 40)} days -1:02:03.5"),
            rnd.randbytes(rnd.randint(0, 40)),
        ],
    )


def _sku(rnd: random.Random) -> str:
    return f"SKU-{rnd.randint(1, 1000):05}"


def _text(rnd: random.Random) -> str | None:
    return _maybe(rnd, rnd.choice(_TEXTS))


def _maybe(rnd: random.Random, value: T) -> T | None:
    return value if rnd.random() < 0.85 else None
