create or replace function londiste.root_check_seqs(
    i_queue_name text,
    i_buffer int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Publishes sequences that came close to their published value, i_buffer or more ahead.
 *
 * Subscribers are always ahead of the root (by one to three buffers of so many values), so that
 * those they hand out after a failover are new.  A buffer below 10, or NULL, means 10000.
 * _seq_ahead() says how far where the sequence ends, descends or cycles.  Only what is due is locked;
 * what another session publishes at the moment is left to it.
 *
 * 100 done; 402 not the root; 404 no node here.
 */
declare
    v_type text;
    v_seq record;
    v_buffer int8 := case when i_buffer >= 10 then i_buffer else 10000 end;
begin
    select n.node_type into v_type
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Queue not found: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_type <> 'root' then
        select 402, 'Not root node' into ret_code, ret_note;
        return;
    end if;

    for v_seq in
        select s.seq_name
        from londiste.seq_info s
        where s.queue_name = i_queue_name
            and s.local
            -- a sequence that was dropped must not stop the others
            and londiste.find_seq_oid(s.seq_name) is not null
        order by s.nr
    loop
        continue when londiste._seq_due(i_queue_name, v_seq.seq_name, v_buffer, false) is null;
        perform from londiste.seq_info s
        where s.queue_name = i_queue_name and s.seq_name = v_seq.seq_name
        for update skip locked;
        continue when not found;
        perform londiste._seq_publish(i_queue_name, v_seq.seq_name, v_buffer, false);
    end loop;
    select 100, 'Sequences updated' into ret_code, ret_note;
end;
$$;

create or replace function londiste.root_check_seqs(
    i_queue_name text,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /* The same with the buffer of 10000. */
    select c.ret_code, c.ret_note from londiste.root_check_seqs(i_queue_name, 10000::int8) c;
$$;
