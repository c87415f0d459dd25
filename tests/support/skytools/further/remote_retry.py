import sys

from londiste.compat import pgq


class RemoteRetry(pgq.RemoteConsumer):
    def __init__(self, args):
        pgq.RemoteConsumer.__init__(self, "remote_retry", "src_db", "dst_db", args)

    def process_remote_batch(self, db, batch_id, ev_list, dst_db):
        curs = dst_db.cursor()
        for ev in ev_list:
            if ev.ev_type == "later" and not ev.ev_retry:
                ev.tag_retry(30)
                continue
            curs.execute("insert into effects values (%s)", [ev.data])
            ev.tag_done()


if __name__ == "__main__":
    RemoteRetry(sys.argv[1:]).start()
