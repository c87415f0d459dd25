import sys

from londiste.compat import pgq


class FailingConnection(pgq.RemoteConsumer):
    """Loses a connection once, in the middle of its first batch."""

    failed = False

    def __init__(self, args):
        pgq.RemoteConsumer.__init__(self, "failing_connection", "src_db", "dst_db", args)

    def process_remote_batch(self, db, batch_id, ev_list, dst_db):
        curs = dst_db.cursor()
        for ev in ev_list:
            curs.execute("insert into effects values (%s)", [ev.data])
            if not self.failed:
                self.failed = True
                curs.execute("select pg_terminate_backend(pg_backend_pid())")
            ev.tag_done()
        self.stop()


if __name__ == "__main__":
    FailingConnection(sys.argv[1:]).start()
