create or replace function pgq.note_known_source(
    i_queue_name text,
    i_consumer_name text,
    i_source text,
    i_generation uuid,
    i_registration int4,
    i_tick_id int8,
    i_tick_time timestamptz
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores how to recognise a queue of another database, for a consumer with its position here.
 *
 * i_source -- location of the queue.  Take the other values from position_facts() in the queue's
 *     database.
 */
    insert into pgq.known_source (
        ks_queue, ks_consumer, ks_source, ks_generation, ks_registration, ks_tick, ks_tick_time
    )
    values (
        i_queue_name, i_consumer_name, i_source, i_generation, i_registration, i_tick_id,
        i_tick_time
    )
    on conflict on constraint known_source_pkey do update
    set ks_source = excluded.ks_source,
        ks_generation = excluded.ks_generation,
        ks_registration = excluded.ks_registration,
        ks_tick = excluded.ks_tick,
        ks_tick_time = excluded.ks_tick_time;
$$;
