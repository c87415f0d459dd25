import sys

from londiste.compat import pgq


class SerialLog(pgq.SerialConsumer):
    def __init__(self, args):
        pgq.SerialConsumer.__init__(self, "serial_log", "src_db", "dst_db", args)

    def process_remote_batch(self, db, batch_id, ev_list, dst_db):
        curs = dst_db.cursor()
        for ev in ev_list:
            curs.execute("insert into effects values (%s)", (ev.data,))
            ev.tag_done()


if __name__ == "__main__":
    SerialLog(sys.argv[1:]).start()
