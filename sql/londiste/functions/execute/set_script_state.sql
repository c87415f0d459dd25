create or replace function londiste.set_script_state(
    i_queue_name text,
    i_file_name text,
    i_state text,
    i_way text,
    i_sql text,
    i_attrs text,
    i_statement int4,
    i_error text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the state of a script: pending, running or failed.
 *
 * A decision that an operator made during the run (skipped, marked) stays; one about another text
 * of this name does not.
 */
insert into londiste.script_state as s
    (queue_name, execute_file, state, way, started, statement, error, execute_sql, execute_attrs, started_at)
values (i_queue_name, i_file_name, i_state, i_way, i_state = 'running', i_statement, i_error, i_sql, i_attrs,
    clock_timestamp())
on conflict (queue_name, execute_file) do update
    set state = excluded.state,
        way = excluded.way,
        started = s.started or excluded.started,
        statement = excluded.statement,
        error = excluded.error,
        execute_sql = excluded.execute_sql,
        execute_attrs = excluded.execute_attrs,
        finished_at = null
    where s.state not in ('skipped', 'marked')
        or s.execute_sql <> excluded.execute_sql;
$$;
