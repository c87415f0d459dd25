import sys

from londiste.compat import pgq


class RetryOnce(pgq.Consumer):
    def process_event(self, db, ev):
        if ev.ev_retry is None:
            ev.tag_retry(self.cf.getint("retry_delay"))
            return
        db.cursor().execute("insert into effects values (%s)", [ev.ev_data])
        ev.tag_done()


if __name__ == "__main__":
    RetryOnce("retry_once", "src_db", sys.argv[1:]).start()
