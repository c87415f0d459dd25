create or replace function pgq_ext.set_last_tick(
    a_consumer text,
    a_subconsumer text,
    a_tick_id int8
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Notes the tick up to which a consumer has applied everything; null forgets it.  Returns 1.
 *
 * Call it in the transaction that applies the batch which ends at the tick.  It takes every
 * tick, also one that lies behind.
 */
begin
    perform pgq_ext._require_values(a_consumer, a_subconsumer);
    if a_tick_id is null then
        delete from pgq_ext.completed_tick
        where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
        return 1;
    end if;
    insert into pgq_ext.completed_tick (consumer_id, subconsumer_id, last_tick_id)
    values (a_consumer, a_subconsumer, a_tick_id)
    on conflict on constraint completed_tick_pkey do update
    set last_tick_id = excluded.last_tick_id;
    return 1;
end;
$$;

create or replace function pgq_ext.set_last_tick(a_consumer text, a_tick_id int8)
returns int4
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The same for a consumer without workers.
 */
    select pgq_ext.set_last_tick(a_consumer, '', a_tick_id);
$$;
