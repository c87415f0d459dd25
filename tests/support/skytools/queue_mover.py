import sys

from londiste.compat import pgq


class QueueMover(pgq.RemoteConsumer):
    def __init__(self, args):
        pgq.RemoteConsumer.__init__(self, "queue_mover", "src_db", "dst_db", args)
        self.dst_queue = self.cf.get("dst_queue_name")

    def process_remote_batch(self, db, batch_id, ev_list, dst_db):
        # prepare rows
        rows = []
        for ev in ev_list:
            rows.append([ev.ev_type, ev.ev_data, ev.ev_time])
            ev.tag_done()

        # insert data
        fields = ["ev_type", "ev_data", "ev_time"]
        curs = dst_db.cursor()
        pgq.bulk_insert_events(curs, rows, fields, self.dst_queue)


if __name__ == "__main__":
    script = QueueMover(sys.argv[1:])
    script.start()
