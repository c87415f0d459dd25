/*
 * Tables that this transaction has read or written, and whether others may write into them meanwhile.
 *
 * A check of a foreign key (ROW SHARE) counts as neither: it sees the rows of all transactions.  It
 * stands beside a write into the table at the key's other end.  SELECT ... FOR SHARE may, too.
 *
 * %(oids)s -- the tables that are asked for.
 * %(locks_rows)s -- there may be such a SELECT: every ROW SHARE counts.
 * written -- a statement could have written into it, even if it found no row.
 * locked -- others may not.
 */
with held as (
    select l.relation, l.mode
    from pg_catalog.pg_locks l
    where l.locktype = 'relation'
        and l.pid = pg_catalog.pg_backend_pid()
        and l.granted
)
select l.relation::int8 as oid,
    bool_or(l.mode = 'RowExclusiveLock') as written,
    bool_or(l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')) as locked
from held l
where l.relation = any (%(oids)s::pg_catalog.oid[])
    and (
        l.mode <> 'RowShareLock'
        or %(locks_rows)s
        or not exists (
            select
            from pg_catalog.pg_constraint c
                join held w on w.mode = 'RowExclusiveLock'
            where c.contype = 'f'
                and (c.confrelid, c.conrelid) in ((l.relation, w.relation), (w.relation, l.relation)))
    )
group by l.relation
order by l.relation
