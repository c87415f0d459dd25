create or replace function pgq._require_short_name(i_what text, i_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD005 if a name has more than 1000 characters: status, checks and notifications contain it.
 *
 * i_what -- queue or consumer.
 */
begin
    if length(i_name) > 1000 then
        raise exception using
            errcode = 'LD005',
            message = format('a name of a %s may have 1000 characters, not %s',
                             i_what, length(i_name)),
            detail = format('it begins with %s', left(i_name, 60)),
            hint = format('choose a shorter name of the %s', i_what);
    end if;
end;
$$;
