create or replace function pgq._require_time(i_time timestamptz, i_hint text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD005 unless an event may wait until that time.
 *
 * The time must be finite, and no later than every client can read.
 */
begin
    if i_time between '0001-01-01 00:00:00+00' and '9999-12-30 00:00:00+00' then
        return;
    end if;
    raise exception using
        errcode = 'LD005',
        message = format('bad time for an event: %s', coalesce(i_time::text, 'NULL')),
        detail = 'it has to be a time of the years 1 to 9999',
        hint = i_hint;
end;
$$;
