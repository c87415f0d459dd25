create or replace function londiste.global_remove_seq(
    i_queue_name text,
    i_seq_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes a sequence from the queue; the root also sends the removal to all nodes.
 *
 * ret_code -- 200 removed; 400 unknown sequence.
 */
declare
    v_seq text := londiste.make_fqname(i_seq_name);
begin
    delete from londiste.seq_info
    where queue_name = i_queue_name and seq_name = v_seq;
    if not found then
        select 400, 'Sequence not found: ' || coalesce(v_seq, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if pgq_node.is_root_node(i_queue_name) then
        perform londiste.root_notify_change(i_queue_name, 'londiste.remove-seq', v_seq);
    end if;
    select 200, 'Sequence removed: ' || v_seq into ret_code, ret_note;
end;
$$;
