import sys

from londiste.compat import pgq


class EmailSender(pgq.Consumer):
    def __init__(self, args):
        pgq.Consumer.__init__(self, "email_sender", "src_db", args)

    def process_batch(self, src_db, batch_id, ev_list):
        curs = src_db.cursor()
        for ev in ev_list:
            curs.execute(
                "select pgq_ext.is_event_done(%s, %s, %s)", [self.consumer_id, batch_id, ev.id]
            )
            if not curs.fetchone()[0]:
                self.send(ev)
                curs.execute(
                    "select pgq_ext.set_event_done(%s, %s, %s)", [self.consumer_id, batch_id, ev.id]
                )
            ev.tag_done()
            src_db.commit()

    def send(self, ev):
        with open(self.cf.get("mailbox"), "a") as mailbox:  # noqa: PTH123
            mailbox.write(ev.ev_data + "\n")


if __name__ == "__main__":
    script = EmailSender(sys.argv[1:])
    script.start()
