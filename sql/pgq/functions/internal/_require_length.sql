create or replace function pgq._require_length(variadic i_fields text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD005 if an event with these fields would be too long for consumers.
 *
 * Consumers read events by COPY, whose lines have at most 1 GB.  A line has twice the bytes of the
 * event if all are escaped, and twice that in another encoding.  A longer event would stop them all.
 */
declare
    v_bytes int8 := (select sum(octet_length(f)) from unnest(i_fields) as f);
begin
    if v_bytes > 268000000 then
        raise exception using
            errcode = 'LD005',
            message = format('an event of %s bytes is too long', v_bytes),
            detail = 'consumers cannot read events of more than 268000000 bytes',
            hint = 'divide it into several events, or store the data elsewhere';
    end if;
end;
$$;
