create or replace function londiste._remove_column_seqs(
    i_queue_name text,
    i_table_name text,
    i_keep_seqs text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stops replicating the sequences of a local table's columns, except those of columns of other
 * replicated tables.
 *
 * i_keep_seqs -- names of sequences that stay.
 */
declare
    v_seq text;
begin
    for v_seq in
        select s.seq_name
        from londiste.table_info t
            cross join lateral londiste._column_seqs(
                londiste.find_table_oid(coalesce(t.dest_table, t.table_name))) c
            join londiste.seq_info s
                on s.queue_name = t.queue_name
                and s.local
                and s.seq_name = c.seq_name
        where t.queue_name = i_queue_name
            and t.table_name = i_table_name
            and t.local
            and s.seq_name <> all (i_keep_seqs)
            and not londiste._seq_is_of_table(i_queue_name, c.seq_oid, i_table_name)
    loop
        perform londiste.local_remove_seq(i_queue_name, v_seq);
    end loop;
end;
$$;
