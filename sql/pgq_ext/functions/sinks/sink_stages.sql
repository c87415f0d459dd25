create or replace function pgq_ext.sink_stages(a_sink text)
returns setof int8
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Numbers of the tables in which rows are staged that nobody needs, once the epoch of a sink is
 * written or given up: its own, and those of any that are older than three days.
 */
    select stage_id
    from pgq_ext.sink_stage
    where sink_id = a_sink or made_at < now() - interval '3 days'
    order by stage_id;
$$;
