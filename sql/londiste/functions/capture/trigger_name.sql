create or replace function londiste.trigger_name(i_queue_name text, i_kind text default '')
returns text
language sql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * The name of our trigger on every table of a queue: _londiste_<queue>, with a kind
 * ('truncate', 'update') _londiste_<queue>_<kind>.
 */
select londiste._short_name('_londiste_' || i_queue_name
    || case i_kind when '' then '' else '_' || i_kind end);
$$;
