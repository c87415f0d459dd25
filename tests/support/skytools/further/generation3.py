import sys

from londiste.compat import pgq


class Generation3(pgq.Consumer):
    """Tags nothing, as programs of generation 3: its events are done."""

    untagged = "done"

    def process_event(self, db, ev):
        db.cursor().execute("insert into effects values (%s)", [ev.data])


if __name__ == "__main__":
    Generation3("generation3", "src_db", sys.argv[1:]).start()
