create or replace function pgq._replicated_as(i_queue_name text, i_table text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the local name of a table of the queue; its name in the queue where none is stored.
 */
declare
    v_dest text;
begin
    if pgq._component_has('londiste.table_info') then
        execute 'select dest_table from londiste.table_info where queue_name = $1 and table_name = $2'
        into v_dest
        using i_queue_name, i_table;
    end if;
    return coalesce(v_dest, i_table);
end;
$$;
