import sys

from londiste.compat import pgq


class Coop(pgq.CoopConsumer):
    def process_event(self, db, ev):
        db.cursor().execute("insert into effects values (%s)", [ev.data])
        ev.tag_done()


if __name__ == "__main__":
    Coop("coop", "src_db", sys.argv[1:]).start()
