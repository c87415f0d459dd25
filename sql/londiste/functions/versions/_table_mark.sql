create or replace function londiste._table_mark(
    i_relid oid,
    out filenode int8,
    out columns text,
    out last_column int4,
    out last_filled int4)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the fingerprint of a table that shows DDL which changes rows: its file and columns.
 *
 * The file changes with TRUNCATE, VACUUM FULL and a rewriting ALTER TABLE.  The row versions of the
 * columns change only with ALTER TABLE.  If both have changed, the table was rewritten.
 *
 * last_filled -- the newest column whose value in old rows is stored in the catalog: it was added
 *     with a default, and no row was written.
 */
begin
    with leaves as (
        select c.oid, coalesce(pg_relation_filenode(c.oid), 0)::int8 as file
        from pg_class c
        where c.oid = i_relid and c.relkind <> 'p'
        union
        select c.oid, coalesce(pg_relation_filenode(c.oid), 0)::int8
        from pg_class p
            cross join lateral pg_partition_tree(p.oid) t
            join pg_class c on c.oid = t.relid and c.relkind <> 'p'
        where p.oid = i_relid and p.relkind = 'p'
    )
    select
        (select coalesce(sum(hashtextextended(format('%s %s', l.oid, l.file), 0)::numeric), 0)
            % 9000000000000000000 from leaves l)::int8,
        (select md5(string_agg(format('%s %s', a.attnum, a.xmin), ',' order by a.attnum))
         from pg_attribute a where a.attrelid = i_relid and a.attnum > 0),
        (select max(a.attnum) from pg_attribute a where a.attrelid = i_relid),
        -- For each by an index: a join would read the columns of all tables.
        (select coalesce(max(m.attnum), 0)
         from leaves l
            cross join lateral (
                select max(a.attnum) from pg_attribute a where a.attrelid = l.oid and a.atthasmissing) m (attnum))
        into filenode, columns, last_column, last_filled;
end;
$$;
