create or replace function pgq.pause_consumer(
    i_queue_name text,
    i_consumer_name text,
    i_reason text default null
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Pauses a consumer: its program opens no batch until resume_consumer().
 *
 * i_reason -- a text for get_paused_consumers(), which keeps 1000 characters; default null.
 *
 * Returns true, or false when the consumer is paused already.
 *
 * The program finishes its current batch first.  Events are kept: they wait, and keep the queue's
 * tables from being rotated.  Cooperative consumers are paused with their main consumer.  Only
 * programs that check get_paused_consumers() obey.
 *
 * Allowed to the owner of the consumer and to administrators.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(i_queue_name, i_consumer_name);
begin
    perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'move');
    insert into pgq.paused_consumer (pc_queue, pc_consumer, pc_reason)
    values (v_sub.sub_queue, v_sub.sub_consumer, left(i_reason, 1000))
    on conflict on constraint pc_pkey do nothing;
    if not found then
        return false;
    end if;
    perform pg_notify('pgq_tick', left(i_queue_name, 1000));
    return true;
end;
$$;
