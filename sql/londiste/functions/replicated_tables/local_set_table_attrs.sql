create or replace function londiste.local_set_table_attrs(
    i_queue_name text,
    i_table_name text,
    i_table_attrs text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the attributes of a local table (url-encoded); the table name must include the schema.
 *
 * ret_code -- 200 stored; 404 not local.
 */
begin
    update londiste.table_info
    set table_attrs = i_table_attrs
    where queue_name = i_queue_name and table_name = i_table_name and local;
    if not found then
        select 404, 'Table not found: ' || coalesce(i_table_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select 200, 'Set attributes of table ' || i_table_name into ret_code, ret_note;
end;
$$;
