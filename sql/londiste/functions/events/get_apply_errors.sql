create or replace function londiste.get_apply_errors(
    i_queue_name text,
    i_all bool,
    out consumer_name text,
    out tick_id int8,
    out event_id int8,
    out row_nr int4,
    out table_name text,
    out dest_table text,
    out kind text,
    out sqlstate text,
    out message text,
    out op text,
    out key_columns text[],
    out row_image text,
    out here_row text,
    out statement text,
    out first_seen timestamptz,
    out last_seen timestamptz,
    out times int8,
    out state text,
    out decided_at timestamptz,
    out decided_by text,
    out reason text,
    out ended_at timestamptz
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the events that stop replication of a queue on this node, decided or not.
 *
 * They are in the order in which they failed first.
 *
 * i_all -- true: include the history.
 */
select
    e.consumer_name, e.tick_id, e.event_id, e.row_nr, e.table_name, e.dest_table, e.kind,
    e.sqlstate, e.message, e.op, e.key_columns, e.row_image, e.here_row, e.statement, e.first_seen,
    e.last_seen, e.times, e.state, e.decided_at, e.decided_by, e.reason, e.ended_at
from londiste.apply_error e
where e.queue_name = i_queue_name and (i_all or e.state in ('halted', 'skip'))
order by e.error_id;
$$;
