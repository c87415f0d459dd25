create or replace function londiste.get_skips(
    i_queue_name text,
    i_consumer_name text,
    out event_id int8,
    out row_nr int4,
    out dest_table text,
    out tick_id int8,
    out state text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the decisions that a consumer needs about events that have stopped it.
 *
 * State skip means that the consumer must skip the event or row.  The consumer calls
 * settle_apply_errors() for ticks up to the highest tick_id.
 */
select e.event_id, e.row_nr, e.dest_table, e.tick_id, e.state
from londiste.apply_error e
where e.queue_name = i_queue_name
    and e.state in ('halted', 'skip')
    and (e.state = 'skip' or e.consumer_name = i_consumer_name)
order by e.error_id;
$$;
