import sys

from londiste.compat import pgq


class FanOut(pgq.Consumer):
    """Sorts events into other queues of the same database."""

    def process_batch(self, db, batch_id, ev_list):
        curs = db.cursor()
        queues = {}
        for ev in ev_list:
            queues.setdefault("to_" + ev.type, []).append((ev.type, ev.data, ev.time))
            curs.execute("insert into effects values (%s)", [ev.data])
            ev.tag_done()
        for name, rows in sorted(queues.items()):
            curs.execute("select pgq.create_queue(%s)", [name])
            pgq.bulk_insert_events(curs, rows, ["ev_type", "ev_data", "ev_time"], name)
            pgq.insert_event(curs, name, "end", str(len(rows)))


if __name__ == "__main__":
    FanOut("fan_out", "src_db", sys.argv[1:]).start()
