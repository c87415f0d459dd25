create or replace function londiste.stage_for_owner(i_table oid, i_columns text[])
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Decides how COPY FROM STDIN writes a table.  Call it in the transaction of the COPY.
 *
 * Returns NULL when copies_directly() allows COPY into the table itself.  Otherwise it returns a
 * statement: COPY writes into the temporary table londiste_stage, which has these columns, and
 * write_as_owner() runs the statement.
 */
declare
    v_class pg_class;
    v_table text;
    v_kinds text;
    v_names text;
    v_values text;
begin
    if londiste.copies_directly(i_table) then
        return null;
    end if;
    select * into v_class from pg_class c where c.oid = i_table;
    select format('%I.%I', n.nspname, v_class.relname) into v_table
    from pg_namespace n where n.oid = v_class.relnamespace;
    select
        string_agg(format('%I %s', a.attname,
            case when p.plain then format_type(a.atttypid, a.atttypmod) else 'text' end), ', '
            order by i.nr),
        string_agg(quote_ident(a.attname), ', ' order by i.nr),
        string_agg(
            case
                when p.plain then format('s.%I', a.attname)
                when b.name in ('json', 'jsonb') then
                    format('s.%I::%s', a.attname, format_type(a.atttypid, a.atttypmod))
                -- As COPY does: by the input function, with the modifier of the type.
                else format('(select r.v from json_to_record(json_build_object(''v'', s.%I))'
                    ' as r(v %s))', a.attname, format_type(a.atttypid, a.atttypmod))
            end, ', ' order by i.nr)
    into v_kinds, v_names, v_values
    from unnest(i_columns) with ordinality as i(name, nr)
    join pg_attribute a on a.attrelid = i_table and a.attname = i.name and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    left join pg_type e on e.oid = t.typelem and t.typlen = -1 and t.typtype <> 'd'
    cross join lateral (
        select londiste._is_plain_type(coalesce(e.oid, t.oid))) as p(plain)
    left join lateral (
        with recursive down as (
            select t.typbasetype as oid
            union all
            select y.typbasetype from down join pg_type y on y.oid = down.oid where y.typtype = 'd')
        select y.typname from down join pg_type y on y.oid = down.oid
        where y.typtype <> 'd') as b(name) on t.typtype = 'd';
    execute format('create temp table londiste_stage (%s) on commit drop', v_kinds);
    execute format('grant select on pg_temp.londiste_stage to %s', v_class.relowner::regrole);
    return format('insert into %s (%s) overriding system value select %s from pg_temp.londiste_stage s',
        v_table, v_names, v_values);
end;
$$;
