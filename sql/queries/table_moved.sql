/*
 * Whether TRUNCATE or ALTER TABLE has moved a table's rows since the snapshot of this transaction.
 *
 * %(schema)s, %(name)s -- unquoted.
 * Such a table looks empty to an older snapshot. The catalog is read in the snapshot, but
 * pg_relation_filenode() says what is true now. No row: the table is younger than the snapshot.
 * A table that has taken the name since looks empty, too: to_regclass() says which one has it now.
 *
 * Of a partitioned table: whether that is so of a partition, or one has come or gone since that had rows
 * then.  pg_partition_tree() tells those there are now.
 */
with recursive tree as (
    select c.oid, c.relkind, c.relfilenode
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = %(schema)s
        and c.relname = %(name)s
        and c.relkind = 'p'
    union all
    select c.oid, c.relkind, c.relfilenode
    from tree
    join pg_catalog.pg_inherits i on i.inhparent = tree.oid
    join pg_catalog.pg_class c on c.oid = i.inhrelid
)
select
    case
        when c.oid is distinct from
            to_regclass(format('%%I.%%I', %(schema)s::text, %(name)s::text)) then true
        when c.relkind = 'p' then exists (
            select from (select * from tree where relkind <> 'p') as was
            full join (
                select p.oid
                from pg_catalog.pg_partition_tree(c.oid) as t
                join pg_catalog.pg_class p on p.oid = t.relid
                where p.relkind <> 'p'
            ) as present on present.oid = was.oid
            where present.oid is null
                or was.oid is null
                or was.relfilenode <> coalesce(pg_catalog.pg_relation_filenode(was.oid), 0)
        )
        else c.relfilenode <> coalesce(pg_catalog.pg_relation_filenode(c.oid), 0)
    end as moved
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s
    and c.relname = %(name)s
