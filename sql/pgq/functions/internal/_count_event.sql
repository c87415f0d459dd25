create or replace function pgq._count_event(
    i_queue_id int4,
    i_queue_name text,
    i_limit int4,
    i_events int8 default 1
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Counts further events of this transaction for the queue; raises LD102 above the limit.
 *
 * The count is in a setting of the transaction: it ends with it, and an event undone by
 * ROLLBACK TO SAVEPOINT does not count.  The transaction's id in it marks an old value.
 */
declare
    v_setting text := 'pgq.events_in_tx_' || i_queue_id;
    v_value text := current_setting(v_setting, true);
    v_txid text := txid_current()::text;
    v_count int8 := i_events;
begin
    if split_part(v_value, ':', 1) = v_txid then
        v_count := v_count + split_part(v_value, ':', 2)::int8;
    end if;
    if v_count > i_limit then
        raise exception using
            errcode = 'LD102',
            message = format(
                'Queue %L allows max %s events from one TX', i_queue_name, i_limit
            ),
            detail = 'the limit protects consumers from a change of a whole table by mistake',
            hint = 'write in smaller transactions, or raise the limit: '
                || format('select pgq.set_queue_config(%L, %L, %L)',
                          i_queue_name, 'per_tx_limit', i_limit * 10::int8);
    end if;
    perform set_config(v_setting, v_txid || ':' || v_count, true);
end;
$$;
