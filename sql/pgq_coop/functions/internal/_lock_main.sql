create or replace function pgq_coop._lock_main(i_queue_name text, i_consumer_name text)
returns pgq.subscription
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The subscription of a main consumer, locked to the end of the transaction; null if none.
 *
 * Whoever gives or takes batches of this consumer's workers holds this lock.
 */
declare
    v_main pgq.subscription;
begin
    select s.*
    into v_main
    from pgq.subscription s
    join pgq.queue q on q.queue_id = s.sub_queue
    join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name
    for update of s;
    return v_main;
end;
$$;
