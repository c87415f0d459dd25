create or replace function pgq_node._refuse_event()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises the error of insert_event(), on event tables of a queue that this node does not write.
 */
begin
    perform pgq._raise_insert_disabled(tg_argv[0]);
    return null;
end;
$$;
