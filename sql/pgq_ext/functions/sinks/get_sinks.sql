create or replace function pgq_ext.get_sinks()
returns table (
    sink_id text, target text, query_id text, epoch int8, row_count int8, done_at timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the sinks that have written something, with their last epoch.
 */
    select s.sink_id, s.target, s.query_id, s.epoch, s.row_count, s.done_at
    from pgq_ext.sink s
    where s.epoch is not null
    order by s.sink_id;
$$;
