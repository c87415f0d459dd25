import sys

from londiste.compat import pgq


class OwnMarks(pgq.Consumer):
    """Commits in a database of its own choice after each event, with a mark for each."""

    def process_batch(self, db, batch_id, ev_list):
        dst_db = self.get_database("dst_db")
        curs = dst_db.cursor()
        for ev in ev_list:
            key = [self.consumer_id, batch_id, ev.id]
            curs.execute("select pgq_ext.is_event_done(%s, %s, %s)", key)
            if not curs.fetchone()[0]:
                curs.execute("insert into effects values (%s)", [ev.data])
                curs.execute("select pgq_ext.set_event_done(%s, %s, %s)", key)
            dst_db.commit()
            ev.tag_done()


if __name__ == "__main__":
    OwnMarks("own_marks", "src_db", sys.argv[1:]).start()
