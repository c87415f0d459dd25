import sys

from londiste.compat import pgq


class Lazy(pgq.Consumer):
    """Reads its events one by one: pgq_lazy_fetch."""

    def process_batch(self, db, batch_id, ev_list):
        curs = db.cursor()
        for ev in ev_list:
            curs.execute("insert into effects values (%s)", [ev.data])
            ev.tag_done()
        self.stat_put("rows", len(ev_list))


if __name__ == "__main__":
    Lazy("lazy", "src_db", sys.argv[1:]).start()
