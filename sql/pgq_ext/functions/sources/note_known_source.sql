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
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Stores the queue to which a consumer's position belongs, and the tick that it has reached.
 *
 * Call it in the transaction that moves the position.
 *
 * a_generation, a_registration -- results of pgq.position_facts() in the queue's database; null:
 *     keep the stored values.
 */
declare
    v_nr int8;
    v_first int8;
begin
    perform pgq_ext._require_values(a_consumer, a_subconsumer, a_queue);
    loop
        select move_nr into v_nr
        from pgq_ext.known_source
        where consumer_id = a_consumer and subconsumer_id = a_subconsumer
        order by move_nr desc
        limit 1;
        if found then
            update pgq_ext.known_source
            set queue_name = a_queue,
                generation = coalesce(a_generation, generation),
                registration = coalesce(a_registration, registration),
                tick_id = a_tick_id,
                tick_time = a_tick_time,
                move_nr = v_nr + 1
            where consumer_id = a_consumer and subconsumer_id = a_subconsumer and move_nr = v_nr;
        elsif v_first is null then
            v_first := pgq_ext._first_nr(a_consumer, a_subconsumer);
            continue;
        else
            insert into pgq_ext.known_source (
                consumer_id, subconsumer_id, queue_name, generation, registration, tick_id,
                tick_time, move_nr
            )
            values (
                a_consumer, a_subconsumer, a_queue, a_generation, a_registration, a_tick_id,
                a_tick_time, v_first
            );
        end if;
        -- Not found: another transaction has moved it since.
        exit when found;
    end loop;
end;
$$;
