"""The shortest consumer: welcomes everybody who signs up.

With LONDISTE_DB and the ticker of README.md:

    londiste queue create signups
    python examples/welcome.py --register
    python examples/welcome.py

In another terminal, or from any language, as part of the transaction that stores the customer:

    psql "$LONDISTE_DB" -c "select pgq.insert_event('signups', 'new', 'Anna')"

Promised is at least once: a crash repeats the batch at hand, nobody is left out.
"""

import londiste


@londiste.consume(queue="signups", name="welcome")
def welcome(event: londiste.Event) -> None:
    print(f"welcome, {event.data}", flush=True)


if __name__ == "__main__":
    welcome.main()
