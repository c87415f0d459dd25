import sys

from londiste.compat import pgq


class BatchAudit(pgq.Consumer):
    def process_batch(self, db, batch_id, ev_list):
        rows = []
        for ev in ev_list:
            rows.append({"data": ev.data})
            ev.tag_done()
        db.cursor().executemany("insert into effects values (%(data)s)", rows)
        self.stat_increase("rows", len(rows))


if __name__ == "__main__":
    BatchAudit("batch_audit", "src_db", sys.argv[1:]).start()
