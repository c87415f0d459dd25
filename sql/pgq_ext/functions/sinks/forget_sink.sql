create or replace function pgq_ext.forget_sink(a_sink text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Forgets a sink, so that another query may take its name; false when there is none.
 *
 * Its query must not run any more: it would be taken for a new one, and its last epoch written
 * again if it comes again.
 */
begin
    delete from pgq_ext.sink where sink_id = a_sink;
    return found;
end;
$$;
