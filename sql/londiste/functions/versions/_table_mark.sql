create or replace function londiste._table_mark(
    i_relid oid,
    out filenode int8,
    out columns text,
    out last_column int4,
    out last_filled int4,
    out names text[])
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
 * names -- of the columns by their number; NULL for dropped ones.
 * last_column -- the number of the newest column.
 * last_filled -- the number of the newest column whose value in old rows is stored in the catalog: it was
 *     added with a default, and no row was written.
 */
declare
    v_kind "char";
    v_leaves oid[] := array[i_relid];
begin
    select c.relkind into v_kind from pg_class c where c.oid = i_relid;
    if not found then
        v_leaves := '{}';
    elsif v_kind = 'p' then
        v_leaves := array(
            select c.oid
            from londiste._partition_tree(i_relid) t
                join pg_class c on c.oid = t.relid and c.relkind <> 'p');
    end if;
    select
        (select coalesce(sum(hashtextextended(format('%s %s', l.oid, coalesce(pg_relation_filenode(l.oid), 0)), 0)::numeric), 0)
            % 9000000000000000000 from unnest(v_leaves) as l (oid))::int8,
        (select md5(string_agg(format('%s %s', a.attnum, a.xmin), ',' order by a.attnum))
         from pg_attribute a where a.attrelid = i_relid and a.attnum > 0),
        (select max(a.attnum) from pg_attribute a where a.attrelid = i_relid),
        -- Partitions number their columns otherwise; they have the same names.
        -- For each by an index: a join would read the columns of all tables.
        (select coalesce(max(m.attnum), 0)
         from unnest(v_leaves) as l (oid)
            cross join lateral (
                select max((
                    select n.attnum from pg_attribute n where n.attrelid = i_relid and n.attname = a.attname))
                from pg_attribute a where a.attrelid = l.oid and a.atthasmissing) m (attnum)),
        (select array_agg(case when not a.attisdropped then a.attname::text end order by a.attnum)
         from pg_attribute a where a.attrelid = i_relid and a.attnum > 0)
        into filenode, columns, last_column, last_filled, names;
end;
$$;
