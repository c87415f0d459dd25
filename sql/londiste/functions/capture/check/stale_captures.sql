create or replace function londiste.stale_captures(
    i_queue_name text,
    out table_name text,
    out reason text,
    out kind text)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Returns the captures of a queue that differ from what would be created for their tables now.
 *
 * i_queue_name -- NULL: all queues.
 *
 * All kinds except the last still work.  Changed tables are captured by statements that each session
 * builds again.  The owner of a table that has changed hands cannot add partitions.  Captures of an
 * older version of this schema work as that version did.  The last kind are functions that remained
 * after DROP TABLE.
 *
 * A table that another session has locked is not compared, which would wait: its kind is locked.
 * A table that was renamed, or has the capture of another one, is not listed: see stray_captures().
 *
 * kind -- changed, owner, dropped or locked.  reason -- as a text, and the statement that helps.
 */
with elsewhere as materialized (
    select londiste._tables_locked_elsewhere() as locked
), stray as materialized (
    select s.function_id, londiste.find_table_oid(s.stray) as relid
    from (select distinct t.queue_name from londiste.table_info as t where t.local) as q
        cross join lateral londiste.stray_captures(q.queue_name, null::text) as s
)
select c.table_name,
    case o.kind
        when 'locked' then 'another session has locked the table, so its capture was not checked'
        when 'owner' then 'its function is not for the present owner of the table'
        else 'the table or this schema has changed' end
        || case when o.kind <> 'locked' then ': select londiste.refresh_capture('
            || quote_literal(c.args[1]) || ', ' || quote_literal(c.table_name) || ')' else '' end,
    o.kind
from elsewhere as e
    cross join londiste._captures(i_queue_name) as c
    cross join lateral (
        select case when c.relid = any (e.locked) then 'locked'
            when exists (select from londiste._capture_grants(c.relid, c.function_id))
            then 'owner' else 'changed' end) as o (kind)
where case when c.relid = any (e.locked) then true
    else londiste._is_stale_capture(c.relid, c.function_id, c.args) end
    and not exists (select from stray as s where s.function_id = c.function_id and s.relid = c.relid)
union all
select d.value ->> 'table',
    'the table was dropped: select londiste.drop_capture('
        || quote_literal(d.value ->> 'queue') || ', ' || quote_literal(d.value ->> 'table') || ')',
    'dropped'
from pg_proc as p
    cross join lateral (select obj_description(p.oid, 'pg_proc')::json) as d (value)
where p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
    and starts_with(p.proname, '_capture_')
    and p.prorettype = 'trigger'::regtype
    and coalesce(d.value ->> 'queue' = i_queue_name, i_queue_name is null)
    and londiste.find_table_oid(d.value ->> 'table') is null
    and not exists (select from pg_trigger as t where t.tgfoid = p.oid);
$$;
