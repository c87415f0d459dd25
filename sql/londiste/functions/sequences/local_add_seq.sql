create or replace function londiste.local_add_seq(
    i_queue_name text,
    i_seq_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Replicates a sequence on this node.
 *
 * The root publishes its value at once.  On other nodes the sequence must be registered in the
 * queue, and advances to the published value.
 *
 * ret_code -- 200 added; 201 was local already; 400 no such sequence, or no node of the queue; 404
 *     not registered in the queue.
 */
declare
    v_seq text := londiste.make_fqname(i_seq_name);
    v_known londiste.seq_info;
    v_root boolean;
begin
    if londiste.find_seq_oid(v_seq) is null then
        select 400, 'Sequence not found: ' || coalesce(v_seq, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select n.node_type = 'root' into v_root
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 400, 'No such set: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;

    select * into v_known
    from londiste.seq_info s
    where s.queue_name = i_queue_name and s.seq_name = v_seq
    for update;
    if v_known.local then
        select 201, 'Sequence already added: ' || v_seq into ret_code, ret_note;
        return;
    end if;

    if v_root then
        insert into londiste.seq_info (queue_name, seq_name, local, last_value)
        values (i_queue_name, v_seq, true, 0)
        on conflict (queue_name, seq_name) do update set local = true, exact = false, unused = false;
        perform londiste._seq_publish(i_queue_name, v_seq, 10000::int8, v_known.seq_name is null);
    else
        if v_known.seq_name is null then
            select 404, 'Unknown sequence: ' || v_seq into ret_code, ret_note;
            return;
        end if;
        update londiste.seq_info
        set local = true
        where queue_name = i_queue_name and seq_name = v_seq;
        perform londiste._seq_move(v_seq, v_known.last_value, null::int8, false,
            v_known.unused);
    end if;
    select 200, 'Sequence added: ' || v_seq into ret_code, ret_note;
end;
$$;
