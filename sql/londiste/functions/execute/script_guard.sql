create or replace function londiste.script_guard()
returns jsonb
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the current state of all objects that a script must not change, for script_changes().
 *
 * It covers the local tables of all queues, and the relations of Londiste's own schemas.
 */
select jsonb_build_object(
    'tables', (
        select coalesce(jsonb_object_agg(t.name, londiste._script_shape(t.name)), '{}'::jsonb)
        from (
            select distinct coalesce(i.dest_table, i.table_name) as name
            from londiste.table_info i
            where i.local
        ) t),
    'ours', (
        select md5(string_agg(format('%s %s %s %s %s', c.oid, c.relname, c.relkind, c.relowner,
            (select md5(string_agg(format('%s %s %s %s', a.attnum, a.attname, a.atttypid, a.attnotnull), ','
                order by a.attnum))
            from pg_attribute a
            where a.attrelid = c.oid and a.attnum > 0)), ',' order by c.oid))
        from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('pgq', 'pgq_node', 'pgq_ext', 'pgq_coop', 'londiste')
            and c.relkind in ('r', 'v', 'S', 'p')
            -- Created and dropped with queues, batches and copies.
            and c.relname !~ '^(event_[0-9]|staged_)'
            and not exists (
                select from pg_inherits h
                where h.inhrelid = c.oid)));
$$;
