create or replace function londiste._partition_start(i_partition text, i_period text)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the start of a partition's period, from its name.
 *
 * The name has the form <parent>_YYYY[_MM[_DD[_HH]]]; NULL when the name has no such ending.
 */
declare
    v_period text := londiste._partition_period(i_period);
    v_found text[];
begin
    v_found := regexp_match(i_partition,
        case v_period
            when 'year' then '_([0-9]{4})$'
            when 'month' then '_([0-9]{4})_([0-9]{2})$'
            when 'day' then '_([0-9]{4})_([0-9]{2})_([0-9]{2})$'
            else '_([0-9]{4})_([0-9]{2})_([0-9]{2})_([0-9]{2})$'
        end);
    if v_found is null then
        return null;
    end if;
    return make_timestamptz(v_found[1]::int, coalesce(v_found[2], '1')::int,
        coalesce(v_found[3], '1')::int, coalesce(v_found[4], '0')::int, 0, 0);
exception
    when datetime_field_overflow then
        return null;
end;
$$;
