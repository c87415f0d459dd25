create or replace function pgq.get_lost_position(
    i_queue_name text,
    i_consumer_name text,
    out source text,
    out reason text,
    out since timestamptz
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns where, why and since when the position of a consumer is lost; no row when it is valid.
 */
    select lp_source, lp_reason, lp_noted
    from pgq.lost_position
    where lp_queue = i_queue_name and lp_consumer = i_consumer_name;
$$;
