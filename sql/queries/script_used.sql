/*
 * Tables that this transaction has read or written, and whether others may write into them meanwhile.
 *
 * A check of a foreign key (ROW SHARE) counts as neither: it sees the rows of all transactions.
 *
 * %(oids)s -- the tables that are asked for.
 * written -- a statement could have written into it, even if it found no row.
 * locked -- others may not.
 */
select l.relation::int8 as oid,
    bool_or(l.mode = 'RowExclusiveLock') as written,
    bool_or(l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')) as locked
from pg_catalog.pg_locks l
where l.locktype = 'relation'
    and l.pid = pg_catalog.pg_backend_pid()
    and l.granted
    and l.relation = any (%(oids)s::pg_catalog.oid[])
    and l.mode <> 'RowShareLock'
group by l.relation
order by l.relation
