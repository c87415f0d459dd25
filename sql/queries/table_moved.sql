/*
 * Whether TRUNCATE or ALTER TABLE has moved a table's rows since the snapshot of this transaction.
 *
 * %(schema)s, %(name)s -- unquoted.
 * Such a table looks empty to an older snapshot. The catalog is read in the snapshot, but
 * pg_relation_filenode() says what is true now. No row: the table is younger than the snapshot.
 */
select c.relfilenode <> coalesce(pg_catalog.pg_relation_filenode(c.oid), 0) as moved
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s
    and c.relname = %(name)s
