create or replace function pgq._changed_here(i_queue_name text, i_table text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether this transaction has changed a captured table whose trigger runs as its writer.
 *
 * i_table -- ev_extra1: the name in the queue of the table with the trigger, or of its partitioned
 *     table; for the native capture the second argument of the trigger.
 *
 * A session cannot fake that: the server counts the changes of rows of a transaction, and a lock that
 * is stronger than a reader's needs the right to write.  (A superuser can switch the counts off.  They
 * do not include TRUNCATE, nor yet the row of a BEFORE trigger.)
 */
declare
    v_dest text := pgq._replicated_as(i_queue_name, i_table);
    v_trigger record;
begin
    for v_trigger in
        select c.oid as relid, bool_or(t.tgtype & 66 <> 0) as before,
            bool_or(t.tgtype & 34 = 34) as before_truncate
        from pg_trigger as t
            join pg_proc as f on f.oid = t.tgfoid
            join pg_namespace as s on s.oid = f.pronamespace
            join pg_class as c on c.oid = t.tgrelid
            join pg_namespace as n on n.oid = c.relnamespace
            cross join lateral string_to_array(encode(t.tgargs, 'escape'), E'\\000') as a (args)
        where t.tgconstrindid = 0
            and t.tgenabled <> 'D'
            and not f.prosecdef
            and a.args[1] = i_queue_name
            and (s.nspname = 'pgq' and f.proname in ('sqltriga', 'logutriga', 'jsontriga')
                    and (format('%s.%s', n.nspname, c.relname) = v_dest
                        -- A partition whose changes are captured as the table's.
                        or 'ev_extra1=' || quote_literal(i_table) = any (a.args)
                            and exists (
                                select
                                from pg_partition_ancestors(c.oid) as h
                                    join pg_class as hc on hc.oid = h.relid
                                    join pg_namespace as hn on hn.oid = hc.relnamespace
                                where format('%s.%s', hn.nspname, hc.relname) = v_dest))
                or s.nspname in ('londiste', 'londiste_capture')
                    and starts_with(f.proname, '_capture_') and a.args[2] = i_table)
        group by c.oid
    loop
        if pg_stat_get_xact_tuples_inserted(v_trigger.relid)
                + pg_stat_get_xact_tuples_updated(v_trigger.relid)
                + pg_stat_get_xact_tuples_deleted(v_trigger.relid) > 0
            or exists (
                select
                from pg_locks as l
                where l.pid = pg_backend_pid()
                    and l.locktype = 'relation'
                    and l.database = (select d.oid from pg_database as d
                        where d.datname = current_database())
                    and l.relation = v_trigger.relid
                    and l.granted
                    and (l.mode = 'AccessExclusiveLock'
                            -- Truncated, or about to be.
                            and (v_trigger.before_truncate
                                or (select sum(pg_relation_size(p.relid)) = 0
                                    from (select v_trigger.relid as relid
                                        union select relid from pg_partition_tree(v_trigger.relid)) as p))
                        or (v_trigger.before or current_setting('track_counts') = 'off')
                            and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock',
                                'ExclusiveLock')))
        then
            return true;
        end if;
    end loop;
    return false;
end;
$$;
