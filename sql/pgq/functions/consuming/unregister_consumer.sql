create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes a consumer's registration; returns the number of registrations removed, 0 if none.
 *
 * A cooperative consumer goes alone.  A main consumer goes with all its cooperative consumers,
 * the events that wait to be delivered to it again, and those it has given up on: nobody could
 * ask for them any more.  get_waiting_info() counts both.
 */
declare
    v_sub pgq.registration;
    v_removed int4[];
    v_is_worker boolean;
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
    v_sub := pgq._position(v_sub);

    -- It is a worker when it shares its number with the part of its name in front of a dot.
    -- Positions do not tell: a main consumer may have a batch open as well.
    v_is_worker := exists (
        select 1
        from pgq.registration s
        join pgq.consumer main on main.co_id = s.sub_consumer
        where s.sub_id = v_sub.sub_id
            and s.sub_consumer <> v_sub.sub_consumer
            and starts_with(x_consumer_name, main.co_name || '.')
    );
    if v_is_worker then
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
    delete from pgq.consumer c
    where c.co_id = any (v_removed)
        and not exists (select 1 from pgq.registration s where s.sub_consumer = c.co_id);
    return cardinality(v_removed);
end;
$$;
