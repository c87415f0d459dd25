create or replace function pgq_ext.note_known_source(
    a_consumer text,
    a_subconsumer text,
    a_queue text,
    a_generation uuid,
    a_registration int4,
    a_tick_id int8,
    a_tick_time timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Notes the queue that a consumer's position belongs to, and the tick it has come to.
 *
 * Call it in the transaction that moves the position.  generation and registration are what
 * pgq.position_facts() answers in the queue's database; null: leave what is noted.
 */
begin
    perform pgq_ext._require_values(a_consumer, a_subconsumer, a_queue);
    insert into pgq_ext.known_source as k (
        consumer_id, subconsumer_id, queue_name, generation, registration, tick_id, tick_time
    )
    values (
        a_consumer, a_subconsumer, a_queue, a_generation, a_registration, a_tick_id, a_tick_time
    )
    on conflict on constraint known_source_pkey do update
    set queue_name = excluded.queue_name,
        generation = coalesce(excluded.generation, k.generation),
        registration = coalesce(excluded.registration, k.registration),
        tick_id = excluded.tick_id,
        tick_time = excluded.tick_time;
end;
$$;
