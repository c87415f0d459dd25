create or replace function pgq_node.clear_consumer_hold(
    i_queue_name text,
    i_consumer_name text,
    i_holder text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes the hold of a holder on a consumer, and expired holds.
 *
 * i_holder -- NULL: the holds of all holders.
 *
 * ret_code -- 200 deleted; 301 there was none.
 */
declare
    v_mine boolean := false;
    v_holder text;
begin
    for v_holder in
        delete from pgq_node.consumer_hold h
        where h.queue_name = i_queue_name
            and h.consumer_name = i_consumer_name
            and (i_holder is null or h.holder = i_holder or h.hold_until <= clock_timestamp())
        returning h.holder
    loop
        v_mine := v_mine or i_holder is null or v_holder = i_holder;
    end loop;
    if v_mine then
        select 200, 'Hold cleared' into ret_code, ret_note;
    else
        select 301, 'Hold not found: ' || coalesce(i_holder, 'NULL') into ret_code, ret_note;
    end if;
end;
$$;
