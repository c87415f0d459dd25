import sys

from londiste.compat import pgq


class OtherServer(pgq.Consumer):
    """Asks a server that does not answer, and goes on without it."""

    def process_event(self, db, ev):
        try:
            self.get_database("lookup_db").cursor().execute("select 1")
            found = "known"
        except Exception as error:
            self.log.warning("no lookup: %s", type(error).__name__)
            found = "unknown"
        db.cursor().execute("insert into effects values (%s)", [f"{ev.data} {found}"])
        ev.tag_done()


if __name__ == "__main__":
    OtherServer("other_server", "src_db", sys.argv[1:]).start()
