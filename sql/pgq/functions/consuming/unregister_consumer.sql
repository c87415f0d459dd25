create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes the registration of a consumer.
 *
 * Returns the number of registrations removed; 0 when the consumer is not registered.
 *
 * Allowed to the owner of the consumer and to administrators.  For a cooperative consumer the
 * function removes only its own registration, also with an open batch, whose events are then not
 * delivered again; pgq_coop.unregister_subconsumer() refuses that.  A main consumer is removed with
 * all its cooperative consumers, its events that wait for a retry, and its failed events.
 * get_waiting_info() counts both kinds of events.
 */
declare
    v_sub pgq.registration;
    v_removed int4[];
    v_consumer_id int4;
begin
    select s.*
    into v_sub
    from pgq.registration s
    join pgq.queue q on q.queue_id = s.sub_queue
    join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = x_queue_name and c.co_name = x_consumer_name
    for update of s;
    if not found then
        return 0;
    end if;
    perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'end');
    -- By name: positions do not distinguish them, a main consumer may have an open batch too.
    if pgq._is_subconsumer(v_sub.sub_id, v_sub.sub_queue, v_sub.sub_consumer) then
        delete from pgq.registration
        where sub_queue = v_sub.sub_queue and sub_consumer = v_sub.sub_consumer;
        v_removed := array[v_sub.sub_consumer];
    else
        delete from pgq.retry_queue where ev_owner = v_sub.sub_id;
        delete from pgq.failed_queue where ev_owner = v_sub.sub_id;
        with gone as (
            delete from pgq.registration where sub_id = v_sub.sub_id returning sub_consumer
        )
        select array_agg(sub_consumer) into v_removed from gone;
    end if;

    delete from pgq.paused_consumer
    where pc_queue = v_sub.sub_queue and pc_consumer = any (v_removed);
    delete from pgq.consumer_owner
    where own_queue = v_sub.sub_queue and own_consumer = any (v_removed);
    delete from pgq.consumer_kind
    where ck_queue = v_sub.sub_queue and ck_consumer = any (v_removed);
    foreach v_consumer_id in array v_removed loop
        -- Who registers it at this moment has the name, and may wait for what is deleted here: the name stays.
        perform from pgq.consumer where co_id = v_consumer_id for update skip locked;
        continue when not found;
        begin
            delete from pgq.consumer c
            where c.co_id = v_consumer_id
                and not exists (select 1 from pgq.registration s where s.sub_consumer = c.co_id);
        exception
            when foreign_key_violation then
                -- Registered with another queue at this moment: the name stays.
                null;
        end;
    end loop;
    return cardinality(v_removed);
end;
$$;
