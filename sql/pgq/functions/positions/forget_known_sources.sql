create or replace function pgq.forget_known_sources(i_queue_name text, i_consumer_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes what consumers of this database know about a queue in another database.
 *
 * i_consumer_name -- null: all consumers of the queue.
 *
 * Returns the number of deleted entries.  Next time these consumers accept the queue as it is.
 */
declare
    v_count int4;
begin
    delete from pgq.lost_position
    where lp_queue = i_queue_name
        and (i_consumer_name is null or lp_consumer = i_consumer_name);
    delete from pgq.known_source
    where ks_queue = i_queue_name
        and (i_consumer_name is null or ks_consumer = i_consumer_name);
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
