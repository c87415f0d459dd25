create or replace function londiste.add_table_with_seqs(
    i_queue_name text,
    i_table_name text,
    i_trg_args text[],
    i_table_attrs text,
    i_dest_table text,
    i_with_seqs bool,
    i_lock_timeout text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Replicates a table on this node, with the sequences of its columns: those of serial and identity
 * columns, and those that a default names.
 *
 * One statement is one transaction: a client needs one round trip for a table.  Where
 * local_add_table() returns a code of 400 or above, this function raises an error.
 *
 * i_with_seqs -- false: without the sequences.  On other nodes than the root only those that the
 *     queue has under their name here.  Sequences that this role cannot read are left out.
 * i_lock_timeout -- lock_timeout until the transaction ends; NULL: that of the session.
 *
 * Other arguments, and the codes, are those of local_add_table().
 */
declare
    v_dest text := londiste.make_fqname(coalesce(i_dest_table, i_table_name));
    v_root bool;
    v_answer record;
    v_seq text;
begin
    if i_lock_timeout is not null then
        perform set_config('lock_timeout', i_lock_timeout, true);
    end if;
    select a.ret_code, a.ret_note into ret_code, ret_note
    from londiste.local_add_table(i_queue_name, i_table_name, i_trg_args, i_table_attrs, i_dest_table) as a;
    perform londiste._require_done('londiste.local_add_table', ret_code, ret_note);
    if not i_with_seqs then
        return;
    end if;
    for v_seq in
        select s.seq_name
        from londiste._column_seqs(londiste.find_table_oid(v_dest)) as s
        where has_sequence_privilege(s.seq_oid, 'select')
            and not exists (
                select from londiste.seq_info as k
                where k.queue_name = i_queue_name and k.seq_name = s.seq_name and k.local)
    loop
        v_root := coalesce(v_root, pgq_node.is_root_node(i_queue_name));
        continue when not v_root and not exists (
            select from londiste.seq_info as k
            where k.queue_name = i_queue_name and k.seq_name = v_seq);
        select * into v_answer from londiste.local_add_seq(i_queue_name, v_seq);
        perform londiste._require_done('londiste.local_add_seq', v_answer.ret_code, v_answer.ret_note);
    end loop;
end;
$$;
