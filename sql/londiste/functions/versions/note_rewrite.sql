create or replace function londiste.note_rewrite(i_queue_name text, i_table_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Puts a table into rewritten_tables(): no event has rows or values in which it may differ from other nodes.
 *
 * Returns false if the queue has no such table in sync here: it will be copied, or is not stored.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
begin
    perform from londiste.table_version v
    where v.queue_name = i_queue_name and v.table_name = v_table;
    if not found then
        perform londiste._note_version(i_queue_name, v_table);
    end if;
    update londiste.table_version v
    set rewritten_at = coalesce(v.rewritten_at, now())
    where v.queue_name = i_queue_name and v.table_name = v_table;
    return found;
end;
$$;
