import sys

from londiste.compat import pgq


class WelcomeConsumer(pgq.Consumer):
    def __init__(self, args):
        pgq.Consumer.__init__(self, "welcome_app", "src_db", args)

    def process_event(self, src_db, ev):
        if ev.ev_type == "WelcomeUser":
            self.log.info("Welcome %s!", ev.ev_data)
            curs = src_db.cursor()
            curs.execute("insert into welcomed (name) values (%s)", [ev.ev_data])
        ev.tag_done()


if __name__ == "__main__":
    script = WelcomeConsumer(sys.argv[1:])
    script.start()
