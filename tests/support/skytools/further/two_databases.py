import sys

from londiste.compat import pgq


class TwoDatabases(pgq.RemoteConsumer):
    """Adds what the source knows to the rows of the target."""

    def __init__(self, args):
        pgq.RemoteConsumer.__init__(self, "two_databases", "src_db", "dst_db", args)

    def process_remote_batch(self, db, batch_id, ev_list, dst_db):
        src, dst = db.cursor(), dst_db.cursor()
        for ev in ev_list:
            src.execute("select upper(%s) as name", [ev.ev_data])
            row = src.fetchone()
            dst.execute("insert into effects values (%s || %s)", [ev.ev_data, row["name"]])
            ev.tag_done()


if __name__ == "__main__":
    TwoDatabases(sys.argv[1:]).start()
