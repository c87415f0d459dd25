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
 * What a consumer that stores its position elsewhere compares it with, before it goes on.
 *
 * generation -- the present one of the queue,
 * valid_until -- last tick up to which positions of i_generation are valid in the present one:
 *     null when i_generation is the present one, or unknown,
 * registration -- number of the consumer's registration, a new one when it registers anew; null
 *     when it is not registered,
 * finished_tick -- tick up to which the consumer has finished here,
 * tick_time -- of tick i_tick_id, null when the queue has it no more, or not yet,
 * first_tick, last_tick -- of the queue.
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
    -- Several rebases may lie between; what one has cut off stays off.
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
