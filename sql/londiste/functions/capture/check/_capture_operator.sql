create or replace function londiste._capture_operator(i_relid oid, i_column int2)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the qualified operator by which a unique index takes values of a column for equal.
 *
 * NULL without such an index.
 */
begin
    return (
        select format(' operator(%I.%s) ', n.nspname, p.oprname)
        from pg_index as i
            cross join unnest(i.indkey::int2[], i.indclass::oid[]) as x (attnum, class)
            join pg_opclass as s on s.oid = x.class
            join pg_am as m on m.oid = s.opcmethod and m.amname = 'btree'
            join pg_amop as t on t.amopfamily = s.opcfamily and t.amoplefttype = s.opcintype
                and t.amoprighttype = s.opcintype and t.amopstrategy = 3
            join pg_operator as p on p.oid = t.amopopr
            join pg_namespace as n on n.oid = p.oprnamespace
        where i.indrelid = i_relid
            and i.indisunique
            and x.attnum = i_column
        order by i.indisprimary desc, i.indexrelid
        limit 1);
end;
$$;
