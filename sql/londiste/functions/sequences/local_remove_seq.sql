create or replace function londiste.local_remove_seq(
    i_queue_name text,
    i_seq_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stops replicating a sequence on this node; on the root, on all nodes.
 *
 * ret_code -- 200 removed; 400 unknown on the root; 404 not local.
 */
declare
    v_seq text := londiste.make_fqname(i_seq_name);
    v_root boolean;
begin
    select n.node_type = 'root' into v_root
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if v_root then
        select g.ret_code, g.ret_note into ret_code, ret_note
        from londiste.global_remove_seq(i_queue_name, v_seq) g;
        return;
    end if;
    update londiste.seq_info
    set local = false
    where queue_name = i_queue_name and seq_name = v_seq and local;
    if found then
        select 200, 'Sequence removed: ' || v_seq into ret_code, ret_note;
    else
        select 404, 'Sequence not found: ' || coalesce(v_seq, 'NULL') into ret_code, ret_note;
    end if;
end;
$$;
