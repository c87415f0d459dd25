import sys

from londiste.compat import skytools


class PlainSql(skytools.DBScript):
    """A consumer without the framework: the functions of the queue, and one transaction."""

    def work(self):
        db = self.get_database("src_db")
        curs = db.cursor()
        names = [self.cf.get("pgq_queue_name"), self.job_name]
        curs.execute("select pgq.register_consumer(%s, %s)", names)
        curs.execute("select pgq.next_batch(%s, %s)", names)
        batch_id = curs.fetchone()[0]
        if batch_id is None:
            db.commit()
            return 0
        curs.execute("select * from pgq.get_batch_events(%s)", [batch_id])
        for row in curs.dictfetchall():
            curs.execute("insert into effects values (%(ev_data)s)", row)
        curs.execute("select pgq.finish_batch(%s)", [batch_id])
        db.commit()
        return 1


if __name__ == "__main__":
    PlainSql("plain_sql", sys.argv[1:]).start()
