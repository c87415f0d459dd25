create or replace function londiste._after_owner(i_names text[], i_values text[], i_before text[])
returns void
language plpgsql
as $$
/*
 * Restores the settings of the session after write_as_owner() has run an owner's code.
 *
 * It also checks that no deferred code waits that would run as the caller.  That may be of any role
 * that the caller must not trust.  Only tables that the transaction has written count: an event of a
 * trigger is queued by a write, which holds a lock of the table until the transaction ends.  (A write
 * that is undone gives up both.)  So a trigger on a table that is not written stops nothing.  Tables
 * of roles of which the caller is no member do not count if they are replicated: the caller itself
 * writes those as itself.
 * The function does not pin search_path: the restored settings must outlive it.
 */
declare
    c_role constant text := 'session_replication_role';
    v_value text;
    v_before text;
    v_found record;
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
    v_triggers := array(
        select t.oid
        from pg_catalog.pg_trigger t
        join pg_catalog.pg_class c on c.oid = t.tgrelid
        where t.tgdeferrable and not t.tgisinternal
            and case when pg_catalog.current_setting('session_replication_role') = 'replica'
                then t.tgenabled in ('A', 'R') else t.tgenabled <> 'D' end
            and not pg_catalog.pg_has_role(c.relowner, current_user, 'MEMBER'));
    if v_triggers = '{}' then
        return;
    end if;
    -- Once, however many triggers there are: the locks of all sessions are read.
    v_written := array(
        select l.relation
        from pg_catalog.pg_locks l
        where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation'
            and l.mode = 'RowExclusiveLock');
    select t.tgname as name, t.tgrelid::pg_catalog.regclass as table
    into v_found
    from pg_catalog.pg_trigger t
    join pg_catalog.pg_class c on c.oid = t.tgrelid
    where t.oid = any (v_triggers) and c.oid = any (v_written)
        and (londiste._is_of_others(c.relowner)
            or not exists (
                select from londiste.table_info i
                where i.local
                    and coalesce(i.dest_table, i.table_name) = londiste._plain_name(c.oid)))
    limit 1;
    if found then
        raise exception using
            errcode = 'LD300',
            message = pg_catalog.format('trigger %I of table %s is deferrable and fires on replicated rows',
                v_found.name, v_found.table),
            detail = 'at the commit it would run as the worker and not as the owner of the table',
            hint = pg_catalog.format('let it fire for applications only: alter table %s enable trigger %I;'
                ' or make it not deferrable', v_found.table, v_found.name);
    end if;
end;
$$;
