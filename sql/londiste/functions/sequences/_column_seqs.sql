create or replace function londiste._column_seqs(
    i_relid oid,
    out seq_name text,
    out seq_oid oid)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the sequences of the columns of a table and its partitions, in the order of the columns.
 *
 * Those of serial and identity columns, and those that a default names.  Those of a schema with
 * a dot in its name are left out.
 */
declare
    v_relids oid[] := i_relid || array(select p.relid from pg_partition_tree(i_relid) as p);
begin
    return query
        select n.nspname || '.' || c.relname, c.oid
        from (
            select d.objid as seq, d.refobjsubid as num
            from pg_depend as d
            where d.refclassid = 'pg_class'::regclass
                and d.refobjid = any (v_relids)
                and d.refobjsubid > 0
                and d.classid = 'pg_class'::regclass
                and d.deptype in ('a', 'i')
            union all
            select d.refobjid, e.adnum
            from pg_attrdef as e
                join pg_depend as d
                    on d.classid = 'pg_attrdef'::regclass
                    and d.objid = e.oid
                    and d.refclassid = 'pg_class'::regclass
            where e.adrelid = any (v_relids)
        ) as f
            join pg_class as c on c.oid = f.seq and c.relkind = 'S'
            join pg_namespace as n on n.oid = c.relnamespace
        where position('.' in n.nspname) = 0
        group by 1, 2
        order by min(f.num), 1;
end;
$$;
