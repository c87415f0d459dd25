/*
 * What a name stands for: one row, or none when there is no such relation.
 *
 * %(schema)s, %(name)s -- unquoted.
 * pages: blocks of the main fork as they are on disk now, not as the statistics remember them;
 * filenode: changes when the table is rewritten, and with it every ctid.
 *
 * Of a partitioned table: the sums of its partitions, leaf_pages their blocks each.  filenode then
 * changes with any of theirs, and with their set; partitions younger than the snapshot, which are
 * empty in it, are left out.  pg_partition_tree() tells those there are now, whatever the snapshot.
 */
select
    c.oid::int8 as oid,
    c.relkind::text as kind,
    c.relispartition as partition,
    coalesce(l.bytes, pg_catalog.pg_relation_size(c.oid))
        / pg_catalog.current_setting('block_size')::int8 as pages,
    coalesce(l.pages, '{}') as leaf_pages,
    coalesce(l.bytes, pg_catalog.pg_relation_size(c.oid)) as bytes,
    coalesce(l.total_bytes, pg_catalog.pg_table_size(c.oid)) as total_bytes,
    coalesce(l.rows_estimate, greatest(c.reltuples, 0)::float8) as rows_estimate,
    case c.relkind
        when 'p' then coalesce(l.filenode, 0)
        else pg_catalog.pg_relation_filenode(c.oid)::int8
    end as filenode,
    pg_catalog.current_setting('block_size')::int4 as block_size
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join lateral (
    select
        pg_catalog.sum(s.bytes)::int8 as bytes,
        pg_catalog.sum(s.total_bytes)::int8 as total_bytes,
        pg_catalog.array_agg(s.bytes / pg_catalog.current_setting('block_size')::int8) as pages,
        pg_catalog.sum(s.rows_estimate) as rows_estimate,
        pg_catalog.hashtextextended(
            pg_catalog.string_agg(s.oid || ' ' || s.filenode, ',' order by s.oid), 0) as filenode
    from (
        select
            p.oid,
            coalesce(pg_catalog.pg_relation_size(p.oid), 0) as bytes,
            coalesce(pg_catalog.pg_table_size(p.oid), 0) as total_bytes,
            greatest(p.reltuples, 0)::float8 as rows_estimate,
            coalesce(pg_catalog.pg_relation_filenode(p.oid), 0) as filenode
        from pg_catalog.pg_partition_tree(c.oid) as t
        join pg_catalog.pg_class p on p.oid = t.relid
        where t.isleaf and p.relkind <> 'p'
    ) s
) l on c.relkind = 'p'
where n.nspname = %(schema)s
    and c.relname = %(name)s
