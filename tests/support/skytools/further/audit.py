import sys

from londiste.compat import pgq


class Audit(pgq.Consumer):
    def process_event(self, db, ev):
        curs = db.cursor()
        curs.execute("insert into effects values (%s || ':' || %s)", [ev.ev_type, ev.ev_data])
        ev.tag_done()


if __name__ == "__main__":
    Audit("audit", "src_db", sys.argv[1:]).start()
