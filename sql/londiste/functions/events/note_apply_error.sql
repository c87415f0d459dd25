create or replace function londiste.note_apply_error(
    i_queue_name text, i_consumer_name text, i_tick_id int8, i_event_id int8, i_row_nr int4,
    i_table_name text, i_dest_table text, i_kind text, i_sqlstate text, i_message text, i_op text,
    i_key_columns text[], i_row_image text, i_here_row text, i_statement text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores an event that failed to apply.  Call it outside of the failed transaction.
 *
 * Each failed event has one row, however often the consumer retries it.  A decision about it stays.
 * An event that stopped the consumer earlier, and does not any more, becomes history.
 */
begin
    update londiste.apply_error e
    set state = 'passed',
        ended_at = now()
    where e.queue_name = i_queue_name
        and e.consumer_name = i_consumer_name
        and e.state = 'halted'
        and (e.event_id, e.row_nr) <> (i_event_id, i_row_nr);
    insert into londiste.apply_error as e (
        queue_name, consumer_name, tick_id, event_id, row_nr, table_name, dest_table, kind,
        sqlstate, message, op, key_columns, row_image, here_row, statement)
    values (
        i_queue_name, i_consumer_name, i_tick_id, i_event_id, i_row_nr, i_table_name, i_dest_table,
        i_kind, i_sqlstate, i_message, i_op, i_key_columns, i_row_image, i_here_row, i_statement)
    on conflict (queue_name, event_id, row_nr) where state in ('halted', 'skip') do update
    set consumer_name = excluded.consumer_name,
        tick_id = greatest(e.tick_id, excluded.tick_id),
        dest_table = excluded.dest_table,
        kind = excluded.kind,
        sqlstate = excluded.sqlstate,
        message = excluded.message,
        op = excluded.op,
        key_columns = excluded.key_columns,
        row_image = excluded.row_image,
        here_row = excluded.here_row,
        statement = excluded.statement,
        last_seen = now(),
        times = e.times + 1;
end;
$$;
