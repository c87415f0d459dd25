create or replace function londiste._told_deletes(
    i_queue_name text,
    i_event_table text,
    i_since int8,
    i_rows int8)
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether the events since a look explain that about that many rows of a table are gone.
 *
 * Events of the last five minutes count in any case: the server's estimates, from which the number of rows
 * is, contain deleted rows for up to a minute longer.
 *
 * An event does not name the partition of its row.  So another half of so many deletes would count too.
 * For the same reason a TRUNCATE explains it only as long as no row was inserted after it.
 *
 * i_event_table -- name of the table in its events.
 * i_since -- the oldest transaction that the look may not have seen.
 */
declare
    v_told bool;
begin
    execute format('select coalesce(max(e.ev_id) filter (where e.ev_type like ''{"op":"TRUNCATE",%%'')'
            || ' > coalesce(max(e.ev_id) filter (where e.ev_type like ''{"op":"INSERT",%%''), 0), false)'
            || ' or 2 * count(*) filter (where e.ev_type like ''{"op":"DELETE",%%'') >= $3'
            || ' from %s as e where e.ev_txid >= $1 and e.ev_extra1 = $2',
        (select pgq.quote_fqname(q.queue_data_pfx) from pgq.queue as q where q.queue_name = i_queue_name))
    into v_told
    using
        least(i_since, coalesce(
            (select txid_snapshot_xmin(t.tick_snapshot)
            from pgq.tick as t
                join pgq.queue as q on q.queue_id = t.tick_queue
            where q.queue_name = i_queue_name and t.tick_time < now() - interval '5 minutes'
            order by t.tick_id desc
            limit 1),
            0)),
        i_event_table, i_rows;
    return v_told;
end;
$$;
