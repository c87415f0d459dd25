import sys

from londiste.compat import pgq


class FailedEvents(pgq.Consumer):
    def process_event(self, db, ev):
        try:
            number = int(ev.ev_extra1 or "0")
        except ValueError:
            ev.tag_failed("no number: extra1")
            return
        db.cursor().execute("insert into effects values (%s)", [f"{ev.ev_data} {number + 1}"])
        ev.tag_done()


if __name__ == "__main__":
    FailedEvents("failed_events", "src_db", sys.argv[1:]).start()
