create or replace function pgq_coop._open_delivery(i_batch_id int8)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = on
as $$
/*
 * Copies the events of an open batch to the table from which receive() delivers them.
 *
 * Raises LD106 if different events of the batch have one id: they could not be settled one by one.
 */
declare
    v_copies int8;
    v_twice int8;
begin
    -- What remains of batches that ended otherwise, as when their consumer was unregistered.
    -- No batch is opened twice, so it is not needed; rows that another session deletes are skipped.
    with gone as (
        delete from pgq_coop.delivery
        where batch_id in (
            select d.batch_id
            from pgq_coop.delivery d
            where (pgq._open_batch(d.batch_id)).sub_key is null
            for update skip locked
        )
        returning content_id
    )
    delete from pgq_coop.delivery_event e using gone where e.content_id = gone.content_id;

    insert into pgq_coop.delivery (batch_id, content_id) values (i_batch_id, i_batch_id);
    -- An id twice is an event and its retry, after the consumer was moved back; one is enough.
    with b as materialized (
        select * from pgq.get_batch_events(i_batch_id)
    ),
    copied as (
        insert into pgq_coop.delivery_event (
            content_id, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4
        )
        select
            i_batch_id, b.ev_id, b.ev_time, b.ev_txid, b.ev_retry, b.ev_type, b.ev_data,
            b.ev_extra1, b.ev_extra2, b.ev_extra3, b.ev_extra4
        from b
        on conflict on constraint delivery_event_pkey do nothing
        returning 1
    )
    select (select count(*) from b) - (select count(*) from copied) into v_copies;
    if v_copies > 0 then
        -- As pgq._put_back() compares them.
        select b.ev_id
        into v_twice
        from pgq.get_batch_events(i_batch_id) as b
        join pgq_coop.delivery_event e on e.content_id = i_batch_id and e.ev_id = b.ev_id
        where (b.ev_time, b.ev_type, b.ev_data, b.ev_extra1, b.ev_extra2, b.ev_extra3, b.ev_extra4)
            is distinct from
            (e.ev_time, e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4)
        limit 1;
        if v_twice is not null then
            raise exception using
                errcode = 'LD106',
                message = format('event %s cannot be received: its id is not unique', v_twice),
                detail = format('batch %s has different events with this id, as a filtered branch'
                                ' writes them', i_batch_id),
                hint = 'process the batch as a whole: pgq_coop.next_batch, pgq.get_batch_events,'
                    ' pgq_coop.finish_batch; or consume the queue of the root';
        end if;
    end if;
end;
$$;
