create or replace function pgq._row_columns(i_relid oid)
returns table (
    pos int2,
    name text,
    type_id oid,
    generated "char",
    as_text text,
    as_json text)
language sql
stable
as $$
/*
 * Returns the columns of a table in order, with two patterns for format().
 *
 * The patterns give the value's text as its output function writes it, and its form for row_to_json().
 *
 * Output functions, not casts to text: bool::text is 'true' and not 't', inet::text adds
 * the mask, char(n)::text drops the padding.  Types that row_to_json() would write as JSON
 * of their own and thereby change (numeric, float, json, arrays, records) go in as text.
 * Before PostgreSQL 15 the output function of "char" writes a value above 127 as a byte that is no text; it is
 * written as \ooo here, as later versions do.
 * Virtual generated columns are excluded: a trigger does not see them.
 *
 * Neither search_path nor volatile, so that it is inlined; all names are qualified.  The type is looked
 * up for each column: a join would read all types, of which each table has two.
 */
select
    a.attnum,
    a.attname::pg_catalog.text,
    a.atttypid,
    a.attgenerated,
    y.as_text,
    case when y.is_plain then '%1$s' else y.as_text end
from pg_catalog.pg_attribute as a
    cross join lateral (
        select
            case
                when o.oid operator(pg_catalog.=) 'pg_catalog.charout'::pg_catalog.regproc
                    and pg_catalog.current_setting('server_version_num')::pg_catalog.int4
                        operator(pg_catalog.<) 150000
                then 'case when pg_catalog.int4(%1$s) operator(pg_catalog.<) 0'
                    ' then pg_catalog.encode(pg_catalog.charsend(%1$s), ''escape'')'
                    ' else pg_catalog.textin(pg_catalog.charout(%1$s)) end'
                when t.typtype operator(pg_catalog.=) 'b'
                    and t.typnamespace operator(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
                    and o.proargtypes[0] operator(pg_catalog.=) t.oid
                    or o.oid operator(pg_catalog.=) 'pg_catalog.array_out'::pg_catalog.regproc
                        and t.typtype operator(pg_catalog.=) 'b'
                then pg_catalog.format('pg_catalog.textin(pg_catalog.%I(%%1$s))', o.proname)
                else 'case pg_catalog.num_nulls(%1$s) when 0 then pg_catalog.format(''%%s'', %1$s) end'
            end,
            t.typtype operator(pg_catalog.=) 'b'
                and t.typnamespace operator(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
                and t.typcategory operator(pg_catalog.<>) 'A'
                and (o.oid operator(pg_catalog.<>) 'pg_catalog.charout'::pg_catalog.regproc
                    or pg_catalog.current_setting('server_version_num')::pg_catalog.int4
                        operator(pg_catalog.>=) 150000)
                and t.oid operator(pg_catalog.<>) all (
                    '{numeric,float4,float8,json,jsonb}'::pg_catalog.regtype[]::pg_catalog.oid[])
        from pg_catalog.pg_type as t
            join pg_catalog.pg_proc as o on o.oid operator(pg_catalog.=) t.typoutput
        where t.oid operator(pg_catalog.=) a.atttypid
        limit 1
    ) as y (as_text, is_plain)
where a.attrelid operator(pg_catalog.=) i_relid
    and a.attnum operator(pg_catalog.>) 0
    and not a.attisdropped
    and a.attgenerated operator(pg_catalog.<>) 'v';
$$;
