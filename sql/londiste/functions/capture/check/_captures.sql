create or replace function londiste._captures(i_queue_name text, i_relids oid[])
returns table (relid oid, table_name text, function_id oid, args text[])
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/* Returns those of some tables that have a native capture for a queue (NULL: for any), one row per table. */
select distinct on (t.tgrelid, t.tgfoid)
    t.tgrelid,
    format('%s.%s', n.nspname, c.relname),
    t.tgfoid,
    londiste._trigger_args(t.tgargs)
from pg_trigger as t
    join pg_proc as p on p.oid = t.tgfoid
    join pg_class as c on c.oid = t.tgrelid
    join pg_namespace as n on n.oid = c.relnamespace
where t.tgrelid = any (i_relids)
    and p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
    and starts_with(p.proname, '_capture_')
    and p.prorettype = 'trigger'::regtype
    and t.tgconstrindid = 0
    and t.tgparentid = 0
    and t.tgname in (
        londiste.trigger_name((londiste._trigger_args(t.tgargs))[1]),
        londiste.trigger_name((londiste._trigger_args(t.tgargs))[1], 'truncate'))
    and coalesce(i_queue_name = (londiste._trigger_args(t.tgargs))[1], i_queue_name is null)
order by t.tgrelid, t.tgfoid;
$$;

create or replace function londiste._captures(i_queue_name text)
returns table (relid oid, table_name text, function_id oid, args text[])
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/* Returns the tables with a native capture for a queue (NULL: for any), one row per table. */
select c.relid, c.table_name, c.function_id, c.args
from londiste._captures(
    i_queue_name,
    array(
        select distinct t.tgrelid
        from pg_proc as p
            join pg_trigger as t on t.tgfoid = p.oid
        where p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
            and t.tgparentid = 0)) as c;
$$;
