create or replace function pgq._same_key(i_relid oid, i_key text[], i_new record, i_old record)
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether two rows of a table have equal keys, as their types define equality.
 *
 * So 1.0 and 1.00 are equal, or a and A of citext.  Types without an order are compared by text.
 */
declare
    v_same bool;
begin
    execute (
        select 'select ' || string_agg(format('case num_nulls(($1).%1$I, ($2).%1$I) when 0 then %2$s when 2 then true'
                ' else false end', a.attname, case when e.oprname is null
                    then format('format(''%%s'', ($1).%1$I) = format(''%%s'', ($2).%1$I)', a.attname)
                    else format('($1).%1$I operator(%2$I.%3$s) ($2).%1$I', a.attname, e.nspname, e.oprname)
                end), ' and ')
        from pg_attribute as a
            join pg_type as t on t.oid = a.atttypid
            left join lateral (
                select n.nspname, o.oprname
                from pg_opclass as c
                    join pg_am as m on m.oid = c.opcmethod and m.amname = 'btree'
                    join pg_amop as p on p.amopfamily = c.opcfamily
                        and p.amoplefttype = c.opcintype
                        and p.amoprighttype = c.opcintype
                        and p.amopstrategy = 3
                    join pg_operator as o on o.oid = p.amopopr
                    join pg_namespace as n on n.oid = o.oprnamespace
                    join pg_type as i on i.oid = c.opcintype
                where c.opcdefault
                    and (c.opcintype in (t.oid, t.typbasetype)
                        or exists (
                            select
                            from pg_cast as k
                            where k.castsource = coalesce(nullif(t.typbasetype, 0), t.oid)
                                and k.casttarget = c.opcintype
                                and k.castmethod = 'b'
                                and k.castcontext = 'i'
                                and i.typispreferred)
                        or c.opcintype = case
                            when t.typcategory = 'A' then 'anyarray'::regtype
                            when t.typtype = 'e' then 'anyenum'::regtype
                            when t.typtype = 'r' then 'anyrange'::regtype
                            when t.typtype = 'c' then 'record'::regtype
                            end)
                order by c.opcintype in (t.oid, t.typbasetype) desc
                limit 1) as e on true
        where a.attrelid = i_relid and a.attname = any (i_key) and a.attnum > 0 and not a.attisdropped)
        into v_same
        using i_new, i_old;
    return coalesce(v_same, false);
end;
$$;
