create or replace function londiste._always_kinds(i_queue_name text, i_relid oid)
returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/* Returns which triggers of a table's capture fire for replicated rows, too: rows, truncate, both or none. */
select array(
    select distinct t.kind
    from londiste._event_triggers(i_queue_name, i_relid) as t
    where t.enabled = 'A'
    order by 1);
$$;
