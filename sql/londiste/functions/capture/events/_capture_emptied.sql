create or replace function londiste._capture_emptied(
    i_relid oid,
    i_captured oid,
    i_when text,
    i_args text[])
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
set DateStyle = 'ISO, YMD'
set IntervalStyle = postgres
set TimeZone = UTC
set extra_float_digits = 1
set bytea_output = hex
set xmloption = content
set lc_monetary = 'C'
set standard_conforming_strings = on
set quote_all_identifiers = off
as $$
/*
 * Captures a TRUNCATE that belongs to a partition.  Returns true when no other event is needed.
 *
 * Called by the triggers of a partitioned table and of its partitions.  A partition that is truncated
 * alone has a DELETE for each of its rows logged before, because other nodes may have other
 * partitions, or none.  If the whole table is truncated, the server locks it, fires the triggers of
 * all its partitions, and one event reports it.  The setting alone proves nothing: every session can
 * set it, also one without any right to the whole table.  In a script there is no event, as for its
 * rows: every node runs its statements.
 *
 * i_captured -- oid of the table for which the calling function was created.  The oid differs after
 *     a restore.
 */
declare
    v_root oid;
    v_flag text;
    v_options record := londiste._capture_options(i_args[3:]);
    v_pieces record;
begin
    if current_setting('session_replication_role') = 'local' then
        return true;
    end if;
    -- The table whose partition it is now: a detached partition has kept the trigger.
    select t.tgrelid into v_root
    from pg_partition_ancestors(i_relid) as a (relid)
        join pg_trigger as t on t.tgrelid = a.relid
    where t.tgname = londiste.trigger_name(i_args[1])
        and t.tgparentid = 0
        and londiste._trigger_args(t.tgargs) = i_args;
    if not found then
        -- Above READ COMMITTED the snapshot may be older than the capture.  The ancestors are always the
        -- current ones.
        select a.relid into v_root
        from pg_partition_ancestors(i_relid) as a (relid)
        where a.relid = i_captured;
    end if;
    if not found then
        return true;
    end if;
    v_flag := 'londiste.emptied_' || v_root;
    if v_root = i_relid then
        perform set_config(v_flag, case i_when when 'BEFORE' then '1' else '' end, true);
        return i_when = 'BEFORE';
    end if;
    if current_setting(v_flag, true) = '1'
        and exists (
            select
            from pg_locks as l
            where l.pid = pg_backend_pid()
                and l.locktype = 'relation'
                and l.database = (select d.oid from pg_database as d where d.datname = current_database())
                and l.relation = v_root
                and l.mode = 'AccessExclusiveLock'
                and l.granted)
    then
        return true;
    end if;
    if not starts_with(current_setting('transaction_isolation'), 'read ') then
        -- TRUNCATE removes rows, too, that this snapshot does not show, so no event could contain them.
        raise exception using
            errcode = 'LD100',
            message = format('TRUNCATE of partition %s cannot be replicated at isolation level %s',
                i_relid::regclass, upper(current_setting('transaction_isolation'))),
            detail = format('table %s of queue %s: rows inserted after the start of the transaction are not visible',
                i_args[2], i_args[1]),
            hint = 'truncate the partition in a transaction of READ COMMITTED, or the whole table';
    end if;
    if londiste._capture_key_columns(v_root, i_args) = '{}'
        or v_options.condition is not null
        or num_nonnulls(variadic v_options.extras) > 0
    then
        raise exception using
            errcode = 'LD100',
            message = format('TRUNCATE of partition %s cannot be replicated', i_relid::regclass),
            detail = format('table %s of queue %s has no key, or expressions in its capture', i_args[2], i_args[1]),
            hint = 'truncate the whole table, detach the partition, or delete its rows';
    end if;
    if not pg_has_role((select c.relowner from pg_class as c where c.oid = i_relid), current_user, 'usage')
        and londiste._reads_run_code(i_relid)
    then
        raise exception using
            errcode = 'LD100',
            message = format('TRUNCATE of partition %s cannot be replicated', i_relid::regclass),
            detail = 'its indexes or constraints use functions of roles that the capture must not run',
            hint = 'truncate the whole table, detach the partition, or delete its rows';
    end if;
    v_pieces := londiste._capture_pieces(v_root, i_args, 'n', 'o');
    execute format('select pgq.insert_event(%L, e.a, e.b, e.c, e.d, e.e, e.f)'
            || ' from only %s as o cross join lateral (%s) as e (a, b, c, d, e, f)',
        i_args[1], i_relid::regclass, v_pieces.on_delete);
    return true;
end;
$$;
