create or replace function londiste.root_exact_seqs(
    i_queue_name text,
    out seq_name text,
    out last_value int8)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Publishes the exact values of all sequences of a root.  Returns the sequences and their values.
 *
 * For a switchover, after the last write.  When a node has reached the next tick, its sequences
 * continue where those of the root stopped, unless another session has taken values on that node.
 * A sequence that was never used is unused on the node, too.  The first value taken on the root
 * afterwards publishes values ahead again (root_check_seqs).
 *
 * Raises LD101 when the node is not the root.
 */
declare
    v_known record;
    v_unused boolean;
begin
    if not pgq_node.is_root_node(i_queue_name) then
        perform londiste._require_node(i_queue_name);
        raise exception 'only the root publishes sequences'
            using errcode = 'LD101', hint = 'run it on the root, after the last write';
    end if;
    for v_known in
        select s.seq_name as name
        from londiste.seq_info s
        where s.queue_name = i_queue_name
            and s.local
            and londiste.find_seq_oid(s.seq_name) is not null
        order by s.nr
        for update of s
    loop
        seq_name := v_known.name;
        select s.last_value, s.unused into last_value, v_unused
        from londiste._seq_state(v_known.name) s;
        update londiste.seq_info s
        set last_value = root_exact_seqs.last_value,
            exact = true,
            unused = v_unused
        where s.queue_name = i_queue_name and s.seq_name = v_known.name;
        perform pgq.insert_event(i_queue_name, 'londiste.update-seq', last_value::text, seq_name,
            case when v_unused then 'unused' else 'exact' end, null::text, null::text);
        return next;
    end loop;
end;
$$;
