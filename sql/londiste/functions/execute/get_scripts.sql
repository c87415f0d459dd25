create or replace function londiste.get_scripts(
    i_queue_name text,
    out execute_file text,
    out state text,
    out way text,
    out started bool,
    out statement int4,
    out error text,
    out execute_sql text,
    out execute_attrs text,
    out started_at timestamptz,
    out finished_at timestamptz)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the scripts of a queue on this node in the last months with their state, oldest first.
 *
 * state -- as in londiste.script_state; done when the script was applied with its batch.
 * execute_sql -- the text that the state is about: a failed script may differ from the text of this
 *     name that has run.
 */
select coalesce(a.execute_file, s.execute_file),
    coalesce(s.state, 'done'),
    coalesce(s.way, 'batch'),
    coalesce(s.started, false),
    s.statement,
    s.error,
    coalesce(s.execute_sql, a.execute_sql),
    case when s.execute_sql is null then a.execute_attrs else s.execute_attrs end,
    coalesce(s.started_at, a.execute_time),
    case when s.state is null then a.execute_time else s.finished_at end
from (select * from londiste.applied_execute where queue_name = i_queue_name) a
    full join (select * from londiste.script_state where queue_name = i_queue_name) s
        on s.execute_file = a.execute_file
order by coalesce(s.started_at, a.execute_time), 1;
$$;
