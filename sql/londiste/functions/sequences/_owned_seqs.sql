create or replace function londiste._owned_seqs(i_relid oid)
returns setof text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the sequences of a table's columns (serial and identity), in the order of the columns.
 *
 * Those that this role cannot read are left out, and those of a schema with a dot in its name.
 */
begin
    return query
        select n.nspname || '.' || c.relname
        from pg_depend as d
            join pg_class as c on c.oid = d.objid and c.relkind = 'S'
            join pg_namespace as n on n.oid = c.relnamespace
        where d.refclassid = 'pg_class'::regclass
            and d.refobjid = i_relid
            and d.refobjsubid > 0
            and d.classid = 'pg_class'::regclass
            and d.deptype in ('a', 'i')
            and position('.' in n.nspname) = 0
            -- The planner asks in any order; the function fails for what is no sequence.
            and case c.relkind when 'S' then has_sequence_privilege(c.oid, 'select') end
        order by d.refobjsubid;
end;
$$;
