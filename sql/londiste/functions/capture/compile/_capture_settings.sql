create or replace function londiste._capture_settings(i_relid oid, i_args text[])
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the settings that the function of a capture must pin, as SET clauses in order.
 *
 * Captured text must not depend on the session that writes.  Each setting costs a good part of a
 * microsecond for every row, so only those that the column types need are pinned.  The text of
 * unknown types, and expressions of the user, may depend on any setting.
 */
declare
    v_options record := londiste._capture_options(i_args[3:]);
    v_key text[] := londiste._capture_key_columns(i_relid, i_args);
    v_all text[] := londiste._capture_every_setting();
    v_types oid[];
begin
    if v_options.condition is not null
        or num_nonnulls(variadic v_options.extras) > 0
        or v_options.ignored <> '{}'
    then
        if v_options.path is not null then
            -- Of the user's expressions; everything else in the function is qualified.
            v_all[1] := 'search_path = ' || coalesce(nullif(v_options.path, ''), 'pg_catalog');
        end if;
        return v_all;
    end if;
    v_types := array(select c.type_id from londiste._row_columns(i_relid) as c);
    if v_types <@ '{bool,int2,int4,int8,numeric,text,varchar,bpchar,uuid,json,jsonb,oid,inet,cidr,macaddr,'
        'macaddr8,bit,varbit,name,time,timetz}'::regtype[]::oid[]
    then
        return '{}';
    end if;
    if not v_types <@ '{bool,int2,int4,int8,numeric,text,varchar,bpchar,uuid,json,jsonb,oid,inet,cidr,macaddr,'
        'macaddr8,bit,varbit,name,date,time,timetz,timestamp,timestamptz,interval,float4,float8,bytea}'::regtype[]::oid[]
    then
        return v_all;
    end if;
    return array(
        select distinct on (a.place) a.setting
        from unnest(v_all) with ordinality as a (setting, place)
            join (values
                ('date', 'DateStyle', true), ('timestamp', 'DateStyle', true),
                ('timestamptz', 'DateStyle', true), ('timestamptz', 'TimeZone', false),
                ('interval', 'IntervalStyle', false), ('float4', 'extra_float_digits', false),
                ('float8', 'extra_float_digits', false), ('bytea', 'bytea_output', false)
            ) as n (type, name, of_key) on starts_with(a.setting, n.name || ' ')
            join londiste._row_columns(i_relid) as c on c.type_id = n.type::regtype
        where not n.of_key or c.name = any (v_key)
        order by a.place);
end;
$$;
