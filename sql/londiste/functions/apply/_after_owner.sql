create or replace function londiste._after_owner(i_names text[], i_values text[], i_before text[])
returns void
language plpgsql
as $$
/*
 * Restores the settings of the session after write_as_owner() has run an owner's code.
 *
 * It also checks that no deferred code waits that would run as the caller.  That may be of any role
 * that the caller must not trust.  Tables of roles of which the caller is no member count if the
 * transaction has written them, unless they are replicated: the caller itself writes those as itself.
 * The function does not pin search_path: the restored settings must outlive it.
 */
declare
    c_role constant text := 'session_replication_role';
    v_value text;
    v_before text;
    v_found text;
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
    select pg_catalog.format('trigger %I of table %s', t.tgname, t.tgrelid::pg_catalog.regclass)
    into v_found
    from pg_catalog.pg_trigger t
    join pg_catalog.pg_class c on c.oid = t.tgrelid
    where t.tgdeferrable and not t.tgisinternal
        and case when pg_catalog.current_setting('session_replication_role') = 'replica'
            then t.tgenabled in ('A', 'R') else t.tgenabled <> 'D' end
        and not pg_catalog.pg_has_role(c.relowner, current_user, 'MEMBER')
        and case when londiste._is_of_others(c.relowner) then true
            when not exists (
                select from pg_catalog.pg_locks l
                where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation'
                    and l.relation = c.oid and l.mode = 'RowExclusiveLock')
            then false
            else not exists (
                select from londiste.table_info i
                where i.local
                    and coalesce(i.dest_table, i.table_name) = londiste._plain_name(c.oid))
            end
    limit 1;
    if v_found is not null then
        raise exception using
            errcode = 'LD300',
            message = v_found || ' is deferrable and fires on replicated rows',
            detail = 'at the commit it would run as the worker and not as the owner of the table',
            hint = 'make it not deferrable, or restrict it to writes of the application';
    end if;
end;
$$;
