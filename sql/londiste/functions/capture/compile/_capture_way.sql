create or replace function londiste._capture_way(i_queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expression (int8) that gives the event table of a queue.
 *
 * Its value is twice the table's number, plus 1 when events may be packed.  Any other value, or null,
 * means that pgq.insert_event() must find the table.
 *
 * It reads one sequence, no snapshot and no table: see pgq._close_way() for why that is right.  The
 * transaction must have its id before the evaluation, and each event needs a new one.
 */
begin
    return (
        select format('pg_catalog.pg_sequence_last_value(%1$L::pg_catalog.regclass)'
                || ' operator(pg_catalog.-) pgq._way_base(%1$L::pg_catalog.regclass)',
            pgq._way_seq(q))
        from pgq.queue as q
        where q.queue_name = i_queue_name);
end;
$$;
