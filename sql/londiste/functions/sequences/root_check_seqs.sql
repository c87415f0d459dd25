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
 * Publishes new values of sequences that are close to their published value.
 *
 * i_buffer -- number of values by which published values are ahead, at least.  Below 10, or NULL:
 *     10000.
 *
 * Subscribers are one to three buffers ahead of the root.  So the values that they hand out after a
 * failover are new.  _seq_ahead() computes the distance for sequences that end, descend or cycle.
 * The function locks only sequences that are due, and skips those that another session is
 * publishing.
 *
 * A sequence that this role may not read does not stop the others.
 *
 * ret_code -- 100 done; 301 done, but for sequences that this role may not read: the note names
 *     them, and the grants; 402 not the root; 404 this database is no node of the queue.
 */
declare
    v_type text;
    v_seq record;
    v_buffer int8 := case when i_buffer >= 10 then i_buffer else 10000 end;
    v_due boolean;
    v_hidden text[] := '{}';
    v_hints text[] := '{}';
    v_hint text;
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
            -- A dropped sequence must not stop the others.
            and londiste.find_seq_oid(s.seq_name) is not null
        order by s.nr
    loop
        begin
            v_due := londiste._seq_due(i_queue_name, v_seq.seq_name, v_buffer, false) is not null;
        exception
            when insufficient_privilege then
                get stacked diagnostics v_hint = pg_exception_hint;
                v_hidden := v_hidden || sqlerrm;
                v_hints := v_hints || v_hint;
                v_due := false;
        end;
        continue when not v_due;
        perform from londiste.seq_info s
        where s.queue_name = i_queue_name and s.seq_name = v_seq.seq_name
        for update skip locked;
        continue when not found;
        perform londiste._seq_publish(i_queue_name, v_seq.seq_name, v_buffer, false);
    end loop;
    if cardinality(v_hidden) > 0 then
        select 301, array_to_string(v_hidden, '; ') || '; hint: ' || array_to_string(v_hints, '; ')
            into ret_code, ret_note;
        return;
    end if;
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
    /* Publishes new values of sequences with a buffer of 10000. */
    select c.ret_code, c.ret_note from londiste.root_check_seqs(i_queue_name, 10000::int8) c;
$$;
