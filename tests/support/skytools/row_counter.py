import sys

from londiste.compat import pgq


class RowCounter(pgq.Consumer):
    def __init__(self, args):
        pgq.Consumer.__init__(self, "row_counter", "db", args)
        self.table_name = self.cf.get("table_name")

    def process_batch(self, db, batch_id, ev_list):
        delta = 0
        for ev in ev_list:
            if ev.extra1 == self.table_name:
                if ev.type[0] == "I":
                    delta += 1
                elif ev.type[0] == "D":
                    delta -= 1
            ev.tag_done()

        self.stat_put("delta", delta)
        if delta:
            curs = db.cursor()
            curs.execute(
                "update row_count set cnt = cnt + %s where tbl = %s", [delta, self.table_name]
            )


if __name__ == "__main__":
    script = RowCounter(sys.argv[1:])
    script.start()
