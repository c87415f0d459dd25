import sys

from londiste.compat import pgq


class Cascaded(pgq.CascadedConsumer):
    """Its position is in a node: it follows the node to another provider."""

    def process_remote_event(self, src_curs, dst_curs, ev):
        src_curs.execute("select %s || '!' as data", [ev.ev_data])
        dst_curs.execute("insert into effects values (%(data)s)", src_curs.fetchone())
        ev.tag_done()


if __name__ == "__main__":
    Cascaded("cascaded", "src_db", sys.argv[1:]).start()
