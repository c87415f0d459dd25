import sys

from londiste.compat import pgq


class UserCounter(pgq.RemoteConsumer):
    def __init__(self, args):
        pgq.RemoteConsumer.__init__(self, "user_counter", "src_db", "dst_db", args)

    def process_remote_batch(self, db, batch_id, ev_list, dst_db):
        added = 0
        for ev in ev_list:
            if ev.ev_type == "WelcomeUser":
                added += 1
            ev.tag_done()
        curs = dst_db.cursor()
        curs.execute("update counters set value = value + %s where name = 'users'", [added])


if __name__ == "__main__":
    script = UserCounter(sys.argv[1:])
    script.start()
