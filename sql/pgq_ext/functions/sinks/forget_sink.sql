create or replace function pgq_ext.forget_sink(a_sink text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes a sink, so that another query may use its name.  Returns false when there is none.
 *
 * Stop its query first.  Otherwise the query counts as a new one, and may write its last epoch
 * again.
 */
begin
    delete from pgq_ext.sink where sink_id = a_sink;
    return found;
end;
$$;
