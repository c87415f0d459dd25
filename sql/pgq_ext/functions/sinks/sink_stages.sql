create or replace function pgq_ext.sink_stages(a_sink text)
returns setof int8
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the numbers of tables with staged rows that are not needed any more.
 *
 * Call it when the epoch of a sink is written or given up.  The result contains the tables of this
 * sink, and tables of any sink that are older than three days.
 */
    select stage_id
    from pgq_ext.sink_stage
    where sink_id = a_sink or made_at < now() - interval '3 days'
    order by stage_id;
$$;
