create or replace function pgq_coop._settle(
    i_caller text,
    i_batch_id int8,
    i_event_ids int8[],
    i_sub_queue int4,
    i_sub_consumer int4,
    i_sub_active timestamptz
)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Settles events of a locked batch, and closes the batch after the last one.  Returns their number.
 *
 * Raises a warning for events that are not waiting.
 */
declare
    v_content_id int8;
    v_settled int8[];
    v_rest int8[];
    v_waiting int8;
begin
    -- A plan from a time when the table was empty must not keep scanning all of it: enable_seqscan.
    select content_id into v_content_id from pgq_coop.delivery where batch_id = i_batch_id;
    with settled as (
        delete from pgq_coop.delivery_event
        where content_id = v_content_id and ev_id = any (i_event_ids)
        returning ev_id
    )
    select coalesce(array_agg(ev_id), '{}') into v_settled from settled;

    v_rest := array(
        select i.id
        from unnest(coalesce(i_event_ids, array[null::int8])) as i (id)
        where i.id is null or i.id not in (select s.id from unnest(v_settled) as s (id))
    );
    if cardinality(v_rest) > 0 then
        raise warning '%: batch % waits for no event %', i_caller, i_batch_id,
            array_to_string(v_rest[1:10], ', ', 'NULL')
            || case when cardinality(v_rest) > 10 then ', ...' else '' end;
    end if;

    -- From the end: events are mostly settled in order, and dead rows before them may be many.
    select ev_id
    into v_waiting
    from pgq_coop.delivery_event
    where content_id = v_content_id
    order by ev_id desc
    limit 1;
    if not found and cardinality(v_settled) > 0 then
        perform pgq_coop._close_batch(i_batch_id, i_sub_queue, i_sub_consumer);
    else
        perform pgq_coop._touch(i_sub_queue, i_sub_consumer, i_sub_active, null::interval);
    end if;
    return cardinality(v_settled);
end;
$$;
