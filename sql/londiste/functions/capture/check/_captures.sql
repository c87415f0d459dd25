create or replace function londiste._captures(i_queue_name text)
returns table (relid oid, table_name text, function_id oid, args text[])
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/* Returns the tables with a native capture for a queue (NULL: for any), one row per table. */
select distinct on (t.tgrelid, t.tgfoid)
    t.tgrelid,
    format('%s.%s', n.nspname, c.relname),
    t.tgfoid,
    londiste._trigger_args(t.tgargs)
from pg_trigger as t
    join pg_proc as p on p.oid = t.tgfoid
    join pg_class as c on c.oid = t.tgrelid
    join pg_namespace as n on n.oid = c.relnamespace
where p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
    and starts_with(p.proname, '_capture_')
    and p.prorettype = 'trigger'::regtype
    and not t.tgisinternal
    and t.tgparentid = 0
    and t.tgname in (
        londiste.trigger_name((londiste._trigger_args(t.tgargs))[1]),
        londiste.trigger_name((londiste._trigger_args(t.tgargs))[1], 'truncate'))
    and coalesce(i_queue_name = (londiste._trigger_args(t.tgargs))[1], i_queue_name is null)
order by t.tgrelid, t.tgfoid;
$$;
