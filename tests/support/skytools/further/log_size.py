import sys

from londiste.compat import pgq


class LogSize(pgq.Consumer):
    def process_event(self, db, ev):
        for number in range(20):
            self.log.info("event %d, line %d of the log", ev.id, number)
        db.cursor().execute("insert into effects values (%s)", [ev.data])
        ev.tag_done()


if __name__ == "__main__":
    LogSize("log_size", "src_db", sys.argv[1:]).start()
