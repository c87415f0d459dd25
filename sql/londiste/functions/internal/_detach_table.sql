create or replace function londiste._detach_table(i_queue_name text, i_table_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a local table an ordinary table again.
 *
 * It drops the triggers, those of its partitions too, deletes the rows of an unfinished copy, and
 * restores the structure.  The registration stays, with local = false.
 */
declare
    v_dest text;
    v_ddl text;
    v_copying boolean;
    v_half boolean := false;
    v_keeps_rows boolean;
    v_written xid[];
    v_own text;
begin
    select coalesce(t.dest_table, t.table_name), t.dropped_ddl, t.merge_state is distinct from 'ok',
           coalesce('&' || t.table_attrs || '&' like E'%&skip\\_truncate=%', false)
        into v_dest, v_ddl, v_copying, v_keeps_rows
    from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = i_table_name and t.local
    for update;
    if not found then
        return;
    end if;

    -- Waits for running tasks, before the table is locked: then their rows and marks are visible.
    perform 1
    from londiste.copy_attempt a
    where a.queue_name = i_queue_name and a.table_name = i_table_name
    for update;
    if v_keeps_rows then
        -- Existing rows, and rows of other tables, stay.
        v_written := array(select londiste.copy_written(i_queue_name, i_table_name));
    else
        -- A table without indexes, or one with partitions, has nothing to restore.
        v_half := v_ddl is not null or v_copying and exists (
            select from londiste.copy_attempt a
                join londiste.copy_chunk c using (queue_name, table_name, attempt)
            where a.queue_name = i_queue_name and a.table_name = i_table_name);
    end if;
    delete from londiste.copy_attempt
    where queue_name = i_queue_name and table_name = i_table_name;
    delete from londiste.copy_chunk
    where queue_name = i_queue_name and table_name = i_table_name;
    delete from londiste.copy_range
    where queue_name = i_queue_name and table_name = i_table_name;

    perform londiste.drop_table_triggers(i_queue_name, i_table_name, true);
    -- The stored statements create keys, which an incomplete copy could violate: delete it first.
    if londiste.find_table_oid(v_dest) is not null then
        v_own := case when londiste.find_rel_oid(v_dest, 'r') is not null then 'only ' else '' end
            || londiste.quote_fqname(v_dest);
        if cardinality(v_written) > 0 then
            -- Triggers of the owner run for it.
            perform londiste._run_as_owner(
                londiste.find_table_oid(v_dest),
                'delete from ' || v_own || ' where xmin = any($1::xid[])',
                v_written::text);
        elsif v_half then
            perform londiste._run_as_owner(
                londiste.find_table_oid(v_dest), 'truncate ' || v_own, null::text);
        end if;
        if v_ddl is not null then
            -- Londiste 3 stores names without schemas that were in its session's path, which the owner
            -- of the database chooses: there the names of the server come first.  Other text is marked.
            if v_ddl !~ '^-- [0-9]+ characters: (build|finish) "' then
                perform set_config(
                    'search_path',
                    concat_ws(', ', 'pg_catalog', nullif(s.reset_val, ''), 'pg_temp'),
                    true)
                from pg_settings s
                where s.name = 'search_path';
            end if;
            execute v_ddl;
            set local search_path = pg_catalog, pg_temp;
        end if;
    end if;

    delete from londiste.copy_step
    where queue_name = i_queue_name and table_name = i_table_name;

    update londiste.table_info
    set local = false,
        merge_state = null,
        custom_snapshot = null,
        dropped_ddl = null,
        table_attrs = null,
        dest_table = null
    where queue_name = i_queue_name and table_name = i_table_name;
end;
$$;
