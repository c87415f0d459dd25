create or replace function londiste.get_seq_list(
    i_queue_name text,
    out seq_name text,
    out last_value int8,
    out local boolean)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the sequences of a queue, in the order in which they were added. */
    select s.seq_name, s.last_value, s.local
    from londiste.seq_info s
    where s.queue_name = i_queue_name
    order by s.nr, s.seq_name;
$$;
