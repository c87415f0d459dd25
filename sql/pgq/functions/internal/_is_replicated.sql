create or replace function pgq._is_replicated(i_queue_name text, i_table text)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a table of this name is in the queue; false where there is no schema londiste.
 *
 * i_table -- as subscribers read it (TableName.parse): a name without a dot is a table of public.
 */
declare
    v_found boolean;
begin
    if i_table is null or not pgq._component_has('londiste.table_info') then
        return false;
    end if;
    execute 'select exists (select from londiste.table_info'
        ' where queue_name = $1 and table_name = $2)'
    into v_found
    using i_queue_name,
        case when position('.' in i_table) > 0 then i_table else 'public.' || i_table end;
    return v_found;
end;
$$;
