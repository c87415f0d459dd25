create or replace function londiste.sequence_values(
    i_queue_name text,
    out seq_name text,
    out last_value int8,
    out unused boolean)
returns setof record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns the current values of the replicated sequences that exist on this node.
     *
     * unused -- true: the value was not used yet and is the next one.
     *
     * For a switchover: call it when no session can write any more.
     */
    select s.seq_name, v.last_value, v.unused
    from londiste.seq_info s, londiste._seq_state(s.seq_name) v
    where s.queue_name = i_queue_name
        and s.local
        and londiste.find_seq_oid(s.seq_name) is not null
    order by s.nr;
$$;
