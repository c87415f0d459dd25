create or replace function londiste._run_as_owner(i_table oid, i_statement text, i_data text)
returns int8
language plpgsql
as $$
/*
 * Runs a statement of a function with the rights of a table's owner, and returns the number of rows.
 *
 * It is write_as_owner() for functions, which do not know what the program has set for the session.
 * In a session of another program, search_path and DateStyle are those of the role afterwards, once
 * the transaction has ended.  A table that is written with the rights of the caller is locked first:
 * by then its name must be that of no other table.  Raises 40001 otherwise.
 *
 * i_data -- parameter $1 of the statement; NULL: the statement has no parameter.
 *
 * The function does not pin search_path: the restored settings must outlive it.  Its callers do.
 */
declare
    -- Set for one transaction only; the default of the session comes back.
    c_local constant text[] := array['application_name', 'synchronous_commit',
        'session_replication_role', 'work_mem', 'maintenance_work_mem',
        'client_connection_check_interval'];
    v_ours constant text := pg_catalog.current_setting('londiste.run_as_owner', true);
    v_owner oid;
    v_table text;
    v_names text[];
    v_values text[];
begin
    select c.relowner, pg_catalog.format('%I.%I', n.nspname, c.relname) into v_owner, v_table
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.oid = i_table;
    if not londiste._is_of_others(v_owner) then
        execute pg_catalog.format('lock table only %s in row exclusive mode', v_table);
        if pg_catalog.to_regclass(v_table) is distinct from i_table then
            raise exception using
                errcode = '40001',
                message = pg_catalog.format('table %s was replaced', v_table);
        end if;
    else
        v_names := c_local || array(
            select s.name from pg_catalog.pg_settings s
            where s.source = 'session' and s.name <> all (c_local));
        if v_ours <> '' then
            v_names := v_names || 'londiste.run_as_owner'::text;
        end if;
        v_values := array(
            select case
                when n.name = any (c_local) then null
                -- The calling function has values of its own.
                when coalesce(v_ours, '') = '' and n.name in ('search_path', 'DateStyle') then null
                else pg_catalog.current_setting(n.name, true)
                end
            from pg_catalog.unnest(v_names) with ordinality as n(name, nr)
            order by n.nr);
    end if;
    return (londiste.write_as_owner(i_table, i_statement, i_data, false, v_names, v_values))[1]::int8;
end;
$$;
