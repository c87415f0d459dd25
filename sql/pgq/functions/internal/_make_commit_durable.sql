create or replace function pgq._make_commit_durable()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes this transaction wait until its commit is on disk.
 *
 * A tick's commit record follows those of all transactions its snapshot sees.  So a consumer
 * never reads an event that a crash undoes, even if the writer committed asynchronously.
 */
begin
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end;
$$;
