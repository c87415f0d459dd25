create or replace function londiste._after_owner(i_names text[], i_values text[], i_before text[])
returns void
language plpgsql
as $$
/*
 * Restores the settings of the session after write_as_owner() has run an owner's code.
 *
 * It also checks that no deferred code waits that would run as the caller.  That may be of any role
 * that the caller must not trust.  It is a deferrable trigger, or a deferrable exclusion constraint
 * with functions of a user, which the server evaluates again.  Only tables that the transaction has
 * written count: an event is queued by a write, which holds a lock of the table until the transaction
 * ends.  (A write that is undone gives up both.)  So a trigger on a table that is not written stops
 * nothing.  Tables of roles of which the caller is no member do not count if they are replicated: the
 * caller itself writes those as itself.
 *
 * The server does not ask again whether a trigger is enabled.  It refuses to change one while an event
 * of its table waits, except that of a partition through the table above.  So the last change of a
 * trigger in this transaction is repeated on the partition, where the server refuses it.
 * The function does not pin search_path: the restored settings must outlive it.
 */
declare
    c_role constant text := 'session_replication_role';
    v_value text;
    v_before text;
    v_found record;
    v_age constant int4 := pg_catalog.age(
        pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.xid);
    v_replica boolean;
    v_triggers oid[];
    v_written oid[];
begin
    reset all;
    -- The default may be anything.
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- The value of the session, then that of the transaction.  The search path has a value of the
    -- transaction by now, which hides the other one.
    perform set_config(n.name, n.value, false)
    from unnest(i_names, i_values) as n(name, value)
    where n.value is not null and n.name <> c_role
        and (n.name = 'search_path' or current_setting(n.name, true) is distinct from n.value);
    perform set_config(n.name, n.before, true)
    from unnest(i_names, i_before) as n(name, before)
    where n.before is not null and n.name <> c_role
        and current_setting(n.name, true) is distinct from n.before;
    select n.value, n.before into v_value, v_before
    from unnest(i_names, i_values, i_before) as n(name, value, before)
    where n.name = c_role;
    if v_value is not null and current_setting(c_role) <> v_value then
        perform londiste._set_for_worker(c_role, v_value, false);
    end if;
    if v_before is not null and current_setting(c_role) <> v_before then
        perform londiste._set_for_worker(c_role, v_before, true);
    end if;
    if exists (select from pg_catalog.pg_cursors c where c.is_holdable) then
        raise exception using
            errcode = 'LD300',
            message = 'code of a table declares a cursor WITH HOLD',
            detail = 'at the commit its query would run as the worker',
            hint = 'change the trigger or function of the table; run_as_owner = false trusts it';
    end if;
    v_replica := pg_catalog.current_setting(c_role) = 'replica';
    v_triggers := array(
        select t.oid
        from pg_catalog.pg_trigger t
        join pg_catalog.pg_class c on c.oid = t.tgrelid
        where t.tgdeferrable
            and case
                -- It may have fired before this transaction changed it.
                when t.tgconstrindid = 0 and pg_catalog.age(t.xmin) between 0 and v_age then true
                when v_replica then t.tgenabled in ('A', 'R')
                else t.tgenabled <> 'D'
                end
            -- Triggers of the server belong to an index.  Those of foreign keys run no code as the
            -- caller.  (In release 14 those that partitions inherit are internal, too.)
            and (t.tgconstrindid = 0
                or t.tgfoid = 'pg_catalog.unique_key_recheck'::pg_catalog.regproc
                and exists (
                    select from pg_catalog.pg_depend d
                    where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
                        and d.objid = t.tgconstrindid
                        and d.refclassid in (
                            'pg_catalog.pg_proc'::pg_catalog.regclass,
                            'pg_catalog.pg_operator'::pg_catalog.regclass,
                            'pg_catalog.pg_type'::pg_catalog.regclass)))
            and not londiste._acts_as_caller(c.relowner));
    if v_triggers = '{}' then
        return;
    end if;
    -- Once, however many triggers there are: the locks of all sessions are read.
    v_written := array(
        select l.relation
        from pg_catalog.pg_locks l
        where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation'
            and l.mode = 'RowExclusiveLock');
    for v_found in
        select t.tgname as name, t.tgrelid::pg_catalog.regclass as table, k.conname as constraint,
            case when t.tgenabled = 'D' then 'disable' when v_replica and t.tgenabled = 'O' then 'enable'
                end as idle
        from pg_catalog.pg_trigger t
        join pg_catalog.pg_class c on c.oid = t.tgrelid
        left join pg_catalog.pg_constraint k on k.oid = t.tgconstraint and t.tgconstrindid <> 0
        where t.oid = any (v_triggers) and c.oid = any (v_written)
            and (londiste._is_of_others(c.relowner)
                or not exists (
                    select from londiste.table_info i
                    where i.local
                        and coalesce(i.dest_table, i.table_name) = londiste._plain_name(c.oid)))
    loop
        if v_found.idle is not null then
            begin
                execute pg_catalog.format('alter table only %s %s trigger %I',
                    v_found.table, v_found.idle, v_found.name);
                continue;
            exception
                when object_in_use or insufficient_privilege then
                    null;
            end;
        end if;
        raise exception using
            errcode = 'LD300',
            message = case
                when v_found.constraint is not null then
                    pg_catalog.format('constraint %I of table %s is deferrable and calls functions',
                        v_found.constraint, v_found.table)
                when v_found.idle is not null then
                    pg_catalog.format('trigger %I of table %s is deferrable and was changed while it waits',
                        v_found.name, v_found.table)
                else
                    pg_catalog.format('trigger %I of table %s is deferrable and fires on replicated rows',
                        v_found.name, v_found.table)
                end,
            detail = 'at the commit it would run as the worker and not as the owner of the table',
            hint = case
                when v_found.constraint is not null then
                    pg_catalog.format('alter table %s drop constraint %I; then add it without DEFERRABLE',
                        v_found.table, v_found.constraint)
                when v_found.idle is not null then
                    'change the code that enables or disables the trigger; or make it not deferrable'
                else
                    pg_catalog.format('let it fire for applications only: alter table %s enable trigger %I;'
                        ' or make it not deferrable', v_found.table, v_found.name)
                end;
    end loop;
end;
$$;
