import sys

from londiste.compat import pgq, skytools


class RowCopier(pgq.RemoteConsumer):
    """Applies the events of logutriga to another table, as one did before Londiste."""

    def __init__(self, args):
        pgq.RemoteConsumer.__init__(self, "row_copier", "src_db", "dst_db", args)

    def process_remote_batch(self, db, batch_id, ev_list, dst_db):
        curs = dst_db.cursor()
        for ev in ev_list:
            row = skytools.db_urldecode(ev.data)
            keys = ev.type[2:].split(",")
            where = " and ".join(
                f"{skytools.quote_ident(key)} = {skytools.quote_literal(row[key])}" for key in keys
            )
            table = skytools.quote_fqident(self.cf.get("dst_table", ev.extra1))
            curs.execute(f"delete from {table} where {where}")
            if ev.type[0] != "D":
                names = ", ".join(map(skytools.quote_ident, row))
                values = ", ".join(map(skytools.quote_literal, row.values()))
                curs.execute(f"insert into {table} ({names}) values ({values})")
            ev.tag_done()


if __name__ == "__main__":
    RowCopier(sys.argv[1:]).start()
