create or replace function londiste._require_done(i_function text, i_code int4, i_note text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises the error that a function has reported by its return code: 400 or above.
 */
begin
    if i_code >= 400 then
        raise exception using
            errcode = case i_code when 400 then 'LD005' when 404 then 'LD004' else 'LD100' end,
            message = i_note,
            detail = format('%s returned %s', i_function, i_code);
    end if;
end;
$$;
