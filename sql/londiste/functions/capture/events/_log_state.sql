create or replace function londiste._log_state(
    i_queue_name text,
    i_set_type text,
    i_unset_type text,
    i_image text,
    i_key_image text,
    i_table text,
    i_extra2 text,
    i_extra3 text,
    i_extra4 text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Logs the current row of a key: the row i_image, or none when that is NULL.
 *
 * In a queue without packed_events readers may not know states.  There a row is logged
 * as a delete, which may match nothing, and an insert.
 */
begin
    if i_image is null
        or exists (
            select from pgq.queue as q
            where q.queue_name = i_queue_name and not q.queue_packed_events)
    then
        perform pgq.insert_event(i_queue_name, i_unset_type, i_key_image, i_table,
            i_extra2, i_extra3, i_extra4);
    end if;
    if i_image is not null then
        perform pgq.insert_event(i_queue_name, i_set_type, i_image, i_table,
            i_extra2, i_extra3, i_extra4);
    end if;
end;
$$;
