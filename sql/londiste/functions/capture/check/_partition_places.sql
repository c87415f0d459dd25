create or replace function londiste._partition_places(
    i_relid oid,
    out oid oid,
    out place text,
    out placed xid,
    out is_attached bool)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the partitions of a table that contain rows, and the table itself.
 *
 * place -- changes when the partition, or one that it is part of, is attached again, and when the
 *     database is restored.
 * placed -- the transaction that has put it there.
 * is_attached -- by ATTACH: a partition created by CREATE TABLE ... PARTITION OF and its entry in the
 *     tree are of one transaction.  An attached one is older than its entry, as are its rows.
 */
with recursive tree as (
    select p.relid::oid as oid, p.parentrelid::oid as parent, p.isleaf
    from pg_partition_tree(i_relid) as p
), placed as (
    select t.oid, t.isleaf, a.xmin::text as place, a.xmin as placed, false as is_attached
    from tree as t
        join pg_attribute as a on a.attrelid = t.oid and a.attname = 'tableoid'
    where t.oid = i_relid
    union all
    select t.oid, t.isleaf, format('%s %s', u.place, i.xmin),
        case when age(i.xmin) < age(u.placed) then i.xmin else u.placed end,
        u.is_attached or i.xmin <> a.xmin
    from placed as u
        join tree as t on t.parent = u.oid
        join pg_inherits as i on i.inhrelid = t.oid
        join pg_attribute as a on a.attrelid = t.oid and a.attname = 'tableoid'
    where t.oid <> i_relid
)
select p.oid, p.place, p.placed, p.is_attached
from placed as p
    join pg_class as c on c.oid = p.oid
where p.oid = i_relid or p.isleaf and c.relkind = 'r';
$$;
