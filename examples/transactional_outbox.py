"""A producer: stores an order and sends its event in one transaction, once for each request.

The event is delivered if and only if the order is committed; there is no moment in which one of
them is there without the other.  And the request's id is the key of the event: who does not know
whether the commit succeeded (a lost connection, a killed program) does it all again, and gets one
order and one event.

With LONDISTE_DB and the ticker of README.md:

    londiste queue create orders
    python examples/transactional_outbox.py request-1 Anna 12.50
    python examples/transactional_outbox.py request-1 Anna 12.50

The second call changes nothing.  `londiste queue events orders` shows the event.
"""

import os
import sys
import time

import psycopg

import londiste


def place_order(conn: psycopg.Connection, request: str, customer: str, amount: str) -> int:
    """Places the order of a request, in the caller's transaction; the id of its event."""
    conn.execute(
        "insert into placed_orders values (%s, %s, %s) on conflict (request) do nothing",
        [request, customer, amount],
    )
    # Last, because others with the same key wait from here to our commit.
    return londiste.Producer(conn, "orders").send_json(
        "order placed", {"request": request, "customer": customer, "amount": amount}, key=request
    )


def main(request: str, customer: str, amount: str) -> None:
    """Tries until it is known that the order is placed."""
    while True:
        try:
            # A with block is a transaction; at its end it commits.
            with psycopg.connect(os.environ["LONDISTE_DB"]) as conn:
                conn.execute(
                    "create table if not exists placed_orders ("
                    " request text primary key, customer text, amount numeric)"
                )
                event = place_order(conn, request, customer, amount)
        except psycopg.OperationalError as error:
            print(f"again in a second: {error}", file=sys.stderr)
            time.sleep(1)
        else:
            print(f"{request} is placed, its event is {event}")
            return


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("REQUEST CUSTOMER AMOUNT")
    main(*sys.argv[1:])
