import sys

from londiste.compat import pgq


class Sighup(pgq.Consumer):
    """Takes no batch before its settings file has another prefix."""

    def startup(self):
        self.log.info("the prefix is %s", self.cf.get("prefix"))

    def work(self):
        if self.cf.get("prefix") == "old":
            return self.startup()
        found = pgq.Consumer.work(self)
        if found:
            self.stop()
        return found

    def process_event(self, db, ev):
        db.cursor().execute("insert into effects values (%s)", [self.cf.get("prefix") + ev.data])
        ev.tag_done()


if __name__ == "__main__":
    Sighup("sighup", "src_db", sys.argv[1:]).start()
