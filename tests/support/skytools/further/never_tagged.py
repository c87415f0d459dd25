import sys

from londiste.compat import pgq


class NeverTagged(pgq.Consumer):
    """Forgets the tag of one kind of events, which therefore come again and again."""

    def process_batch(self, db, batch_id, ev_list):
        curs = db.cursor()
        for ev in ev_list:
            curs.execute("insert into effects values (%s)", [f"{ev.data}{ev.retry or ''}"])
            if ev.type != "forgotten":
                ev.tag_done()


if __name__ == "__main__":
    NeverTagged("never_tagged", "src_db", sys.argv[1:]).start()
