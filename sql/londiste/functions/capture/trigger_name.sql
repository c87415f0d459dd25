create or replace function londiste.trigger_name(i_queue_name text, i_kind text default '')
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the name of Londiste's trigger on the tables of a queue.
 *
 * It is _londiste_<queue>, or with a kind ('truncate', 'update') _londiste_<queue>_<kind>.
 */
begin
    return (
        select londiste._short_name('_londiste_' || i_queue_name
            || case i_kind when '' then '' else '_' || i_kind end));
end;
$$;
