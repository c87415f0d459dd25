import sys

from londiste.compat import skytools


class TableMover(skytools.DBScript):
    """Moves rows from one database into another: first there, then here."""

    def work(self):
        src_db, dst_db = self.get_database("src_db"), self.get_database("dst_db")
        src, dst = src_db.cursor(), dst_db.cursor()
        src.execute("select id, data from outbox order by id limit 2")
        rows = src.fetchall()
        for row in rows:
            dst.execute("select 1 from effects where id = %s", [row["id"]])
            if not dst.fetchone():
                dst.execute("insert into effects (data, id) values (%s, %s)", [row.data, row.id])
        dst_db.commit()
        if rows:
            src.execute("delete from outbox where id in %s", [tuple(row[0] for row in rows)])
        src_db.commit()
        self.stat_increase("moved", len(rows))
        return len(rows)


if __name__ == "__main__":
    TableMover("table_mover", sys.argv[1:]).start()
