create or replace function pgq.position_facts(
    i_queue_name text,
    i_consumer_name text,
    i_generation uuid,
    i_tick_id int8,
    out generation uuid,
    out valid_until int8,
    out registration int4,
    out finished_tick int8,
    out tick_time timestamptz,
    out first_tick int8,
    out last_tick int8
)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns what a consumer with its position in another database checks before it continues.
 *
 * generation -- current generation of the queue.
 * valid_until -- last tick up to which positions of i_generation are valid in the current
 *     generation; null when i_generation is the current one, or unknown.
 * registration -- number of the consumer's registration, which changes with a new registration; null
 *     when the consumer is not registered.
 * finished_tick -- tick up to which the consumer has finished in this queue.
 * tick_time -- time of tick i_tick_id; null when the tick is removed, or does not exist yet.
 * first_tick, last_tick -- first and last tick of the queue.
 */
declare
    v_queue_id int4;
begin
    select queue_id into v_queue_id from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such queue', i_queue_name);
    end if;
    select g.gen_id
    into generation
    from pgq.queue_generation g
    where g.gen_queue = v_queue_id and g.gen_ended is null;
    -- Several rebases may lie in between; what one has cut off stays off.
    select min(g.gen_last_tick)
    into valid_until
    from pgq.queue_generation g
    where g.gen_queue = v_queue_id
        and g.gen_ended >= (
            select own.gen_ended
            from pgq.queue_generation own
            where own.gen_queue = v_queue_id and own.gen_id = i_generation
        );
    select s.sub_id, s.sub_last_tick
    into registration, finished_tick
    from pgq.subscription s
    join pgq.consumer c on c.co_id = s.sub_consumer
    where s.sub_queue = v_queue_id and c.co_name = i_consumer_name;
    select t.tick_time
    into tick_time
    from pgq.tick t
    where t.tick_queue = v_queue_id and t.tick_id = i_tick_id;
    select min(t.tick_id), max(t.tick_id)
    into first_tick, last_tick
    from pgq.tick t
    where t.tick_queue = v_queue_id;
end;
$$;
