/*
 * Columns of one table that may have values in rows written before the columns existed: their first
 * default.  Of a partitioned table, its partitions contain these rows.
 *
 * %(oid)s -- the table.
 */
with recursive tree (oid) as (
    select %(oid)s::oid
    union
    select i.inhrelid
    from tree
    join pg_catalog.pg_inherits i on i.inhparent = tree.oid
    join pg_catalog.pg_class c on c.oid = i.inhrelid and c.relispartition
)
select distinct a.attname as name
from tree
join pg_catalog.pg_attribute a on a.attrelid = tree.oid
where a.atthasmissing
    and a.attnum > 0
    and not a.attisdropped
