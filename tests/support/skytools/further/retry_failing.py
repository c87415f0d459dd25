import sys

from londiste.compat import pgq


class RetryFailing(pgq.Consumer):
    """Events that cannot be stored wait; the others of the batch do not."""

    def process_event(self, db, ev):
        curs = db.cursor()
        curs.execute("savepoint event")
        try:
            curs.execute("insert into effects values (%s)", [ev.ev_data])
            if ev.ev_data == "a" and not ev.ev_retry:
                curs.execute("select 1/0")
        except Exception:
            curs.execute("rollback to savepoint event")
            self.log.exception("event %s waits", ev.id)
            ev.tag_retry()
        else:
            ev.tag_done()


if __name__ == "__main__":
    RetryFailing("retry_failing", "src_db", sys.argv[1:]).start()
