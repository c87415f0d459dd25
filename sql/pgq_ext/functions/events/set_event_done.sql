create or replace function pgq_ext.set_event_done(
    a_consumer text,
    a_subconsumer text,
    a_batch_id int8,
    a_event_id int8
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Notes that an event is dealt with; false when it was noted already.
 *
 * Remembers the events of one batch: the first event of another batch forgets them.  Call it in
 * the transaction that deals with the event, or after a side effect that cannot be undone.
 */
begin
    perform pgq_ext._require_values(
        a_consumer, a_subconsumer, a_batch_id::text, a_event_id::text
    );
    if not exists (
        select 1
        from pgq_ext.partial_batch
        where consumer_id = a_consumer
            and subconsumer_id = a_subconsumer
            and cur_batch_id = a_batch_id
    ) then
        insert into pgq_ext.partial_batch (consumer_id, subconsumer_id, cur_batch_id)
        values (a_consumer, a_subconsumer, a_batch_id)
        on conflict on constraint partial_batch_pkey do update
        set cur_batch_id = excluded.cur_batch_id;
        delete from pgq_ext.completed_event
        where consumer_id = a_consumer
            and subconsumer_id = a_subconsumer
            and batch_id <> a_batch_id;
    end if;

    insert into pgq_ext.completed_event (consumer_id, subconsumer_id, batch_id, event_id)
    values (a_consumer, a_subconsumer, a_batch_id, a_event_id)
    on conflict on constraint completed_event_pkey do nothing;
    return found;
end;
$$;

create or replace function pgq_ext.set_event_done(
    a_consumer text,
    a_batch_id int8,
    a_event_id int8
)
returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The same for a consumer without workers.
 */
    select pgq_ext.set_event_done(a_consumer, '', a_batch_id, a_event_id);
$$;
