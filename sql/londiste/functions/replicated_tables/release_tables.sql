create or replace function londiste.release_tables(
    i_queue_name text,
    out from_table text,
    out fkey_name text,
    out statement text,
    out reason text)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Restores what unfinished copies have dropped, before a node is dropped.
 *
 * Rows of unfinished copies are deleted, as local_remove_table() does.  Foreign keys that no other
 * node restores are added as NOT VALID.  The rights are those of the caller, so that expressions of
 * a table's owner do not run as the owner of pgq_node.drop_node().
 *
 * Returns the keys whose rows are not validated, and those that could not be added.
 *
 * statement -- validates the rows of the key; with a reason: adds the key.
 * reason -- why the key could not be added: the SQLSTATE, and table and constraint where the error
 *     has them; its text may contain values of rows.  The definition of the key stays stored.
 */
declare
    v_dests constant text[] := array(
        select coalesce(t.dest_table, t.table_name)
        from londiste.table_info t
        where t.queue_name = i_queue_name and t.local);
    v_last constant boolean := not exists (
        select from pgq_node.node_info n where n.queue_name <> i_queue_name);
    v_table text;
    v_key londiste.pending_fkeys;
    v_add text;
    v_constraint text;
    v_relation text;
begin
    for v_table in
        select t.table_name
        from londiste.table_info t
        where t.queue_name = i_queue_name
            and t.local
            and (t.merge_state is distinct from 'ok' or t.dropped_ddl is not null)
        order by t.table_name
    loop
        perform londiste._detach_table(i_queue_name, v_table);
    end loop;

    for v_key in
        select f.*
        from londiste.pending_fkeys f
        where (v_last or array[f.from_table, f.to_table] && v_dests)
            and not (
                exists (
                    select from londiste.table_info t
                    where t.queue_name <> i_queue_name
                        and t.local
                        and coalesce(t.dest_table, t.table_name) = f.from_table)
                and exists (
                    select from londiste.table_info t
                    where t.queue_name <> i_queue_name
                        and t.local
                        and coalesce(t.dest_table, t.table_name) = f.to_table))
        order by f.from_table, f.fkey_name
    loop
        from_table := v_key.from_table;
        fkey_name := v_key.fkey_name;
        statement := v_key.fkey_def;
        reason := null;
        if londiste.find_table_oid(v_key.from_table) is null then
            delete from londiste.pending_fkeys p
            where p.from_table = v_key.from_table and p.fkey_name = v_key.fkey_name;
            continue;
        end if;
        begin
            if not exists (
                select from pg_constraint c
                where c.conrelid = londiste.find_table_oid(v_key.from_table)
                    and c.conname = v_key.fkey_name
                    and c.contype = 'f')
            then
                statement := londiste._fkey_statement(v_key);
                v_add := londiste.restore_table_fkey(v_key.from_table, v_key.fkey_name, true);
                if v_add ~ E'\\mNOT (VALID|ENFORCED)$' then
                    execute v_add;
                else
                    -- It reads the rows, and so calls casts that the owner may have created.
                    perform londiste._run_as_owner(
                        londiste.find_table_oid(v_key.from_table), v_add, null::text);
                end if;
            end if;
            statement := londiste.restore_table_fkey(v_key.from_table, v_key.fkey_name, true);
            delete from londiste.pending_fkeys p
            where p.from_table = v_key.from_table and p.fkey_name = v_key.fkey_name;
        exception
            when lock_not_available or deadlock_detected then
                raise;
            when others then
                get stacked diagnostics
                    v_constraint = constraint_name,
                    v_relation = table_name;
                reason := 'SQLSTATE ' || sqlstate
                    || case when v_relation <> '' then ', table ' || v_relation else '' end
                    || case when v_constraint <> '' then ', constraint ' || v_constraint else '' end;
        end;
        if statement <> '' then
            return next;
        end if;
    end loop;
end;
$$;
