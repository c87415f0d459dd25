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
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Stores that an event is processed.  Returns false when it was stored already.
 *
 * The function keeps the events of one batch: the first event of another batch deletes them.  Call
 * it in the transaction that processes the event, or after a side effect that cannot be undone.
 */
declare
    v_nr int8;
    v_batch int8;
    v_first int8;
begin
    perform pgq_ext._require_values(
        a_consumer, a_subconsumer, a_batch_id::text, a_event_id::text
    );
    loop
        select move_nr, cur_batch_id into v_nr, v_batch
        from pgq_ext.partial_batch
        where consumer_id = a_consumer and subconsumer_id = a_subconsumer
        order by move_nr desc
        limit 1;
        if found and v_batch = a_batch_id then
            exit;
        elsif found then
            update pgq_ext.partial_batch
            set cur_batch_id = a_batch_id, move_nr = v_nr + 1
            where consumer_id = a_consumer and subconsumer_id = a_subconsumer and move_nr = v_nr;
            if found then
                -- By the number of the batch: the index leads past dead events of other batches.
                delete from pgq_ext.completed_event
                where consumer_id = a_consumer
                    and subconsumer_id = a_subconsumer
                    and batch_id = v_batch;
                exit;
            end if;
        elsif v_first is null then
            v_first := pgq_ext._first_nr(a_consumer, a_subconsumer);
        else
            insert into pgq_ext.partial_batch (
                consumer_id, subconsumer_id, cur_batch_id, move_nr
            )
            values (a_consumer, a_subconsumer, a_batch_id, v_first);
            exit;
        end if;
    end loop;

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
 * Stores that an event is processed, for a consumer without workers.
 */
    select pgq_ext.set_event_done(a_consumer, '', a_batch_id, a_event_id);
$$;
