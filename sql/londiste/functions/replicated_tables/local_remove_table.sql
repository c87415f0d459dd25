create or replace function londiste.local_remove_table(
    i_queue_name text,
    i_table_name text,
    i_keep_seqs text[],
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stops replicating a table on this node; on the root, on all nodes.
 *
 * Sequences of its columns go with it, except those of columns of other replicated tables.
 *
 * The rows stay.  Exception: the rows of an unfinished copy are deleted, because the table is
 * incomplete.  Worker and copy process are notified at once (channel londiste_tables).
 *
 * i_keep_seqs -- names of sequences that stay replicated, on the root on all nodes.
 * ret_code -- 200 removed; 400 unknown table, or not local.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_local boolean;
begin
    select t.local into v_local
    from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = v_table
    for update;
    if not found then
        select 400, 'Table not found: ' || coalesce(v_table, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if not v_local then
        select 400, 'Table not registered locally: ' || v_table into ret_code, ret_note;
        return;
    end if;

    perform londiste._remove_column_seqs(i_queue_name, v_table, coalesce(i_keep_seqs, '{}'));
    perform londiste._detach_table(i_queue_name, v_table);
    perform pg_notify('londiste_tables', left(i_queue_name, 1000));
    if pgq_node.is_root_node(i_queue_name) then
        perform londiste.global_remove_table(i_queue_name, v_table);
        perform londiste.root_notify_change(i_queue_name, 'londiste.remove-table', v_table);
    end if;
    select 200, 'Table removed: ' || v_table into ret_code, ret_note;
end;
$$;

create or replace function londiste.local_remove_table(
    i_queue_name text,
    i_table_name text,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
/* The same; no sequence of its columns alone stays. */
select r.ret_code, r.ret_note
from londiste.local_remove_table(i_queue_name, i_table_name, null::text[]) r;
$$;
