/*
 * The statement that finds rows which a foreign key does not admit, as JSON; the table that the key
 * refers to; the statements after which no trigger of the key fires for replicated rows, or null.
 *
 * %(table)s -- the referencing table, schema.name; %(name)s -- the key.  No row for keys with PERIOD
 * or MATCH FULL.
 */
select format(
    'select pg_catalog.jsonb_build_object(%%s)::text from %%s as f where %%s and not exists'
        || ' (select from %%s as t where %%s)',
    string_agg(format('%%L, f.%%I', fa.attname, fa.attname), ', ' order by u.place),
    k.conrelid::pg_catalog.regclass,
    string_agg(format('f.%%I is not null', fa.attname), ' and ' order by u.place),
    k.confrelid::pg_catalog.regclass,
    string_agg(
        format('t.%%I operator(%%I.%%s) f.%%I', ta.attname, n.nspname, o.oprname, fa.attname),
        ' and ' order by u.place)),
    k.confrelid::pg_catalog.regclass::text,
    (select string_agg(
            format('alter table %%s enable trigger %%I', g.tgrelid::pg_catalog.regclass, g.tgname),
            '; ' order by g.oid)
        from pg_catalog.pg_trigger as g
        where g.tgconstraint = k.oid and g.tgenabled in ('A', 'R'))
from pg_catalog.pg_constraint as k
    cross join lateral unnest(k.conkey, k.confkey, k.conpfeqop)
        with ordinality as u (from_column, to_column, operator, place)
    join pg_catalog.pg_attribute as fa on fa.attrelid = k.conrelid and fa.attnum = u.from_column
    join pg_catalog.pg_attribute as ta on ta.attrelid = k.confrelid and ta.attnum = u.to_column
    join pg_catalog.pg_operator as o on o.oid = u.operator
    join pg_catalog.pg_namespace as n on n.oid = o.oprnamespace
where k.conrelid = londiste.find_table_oid(%(table)s)
    and k.conname = %(name)s
    and k.contype = 'f'
    and k.confmatchtype = 's'
    and not coalesce((pg_catalog.to_jsonb(k) ->> 'conperiod')::bool, false)
group by k.oid, k.conrelid, k.confrelid
