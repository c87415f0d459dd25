create or replace function londiste._captured_table(i_relid oid, i_trigger_name name)
returns oid
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the table to whose capture a trigger belongs: its own, or the partitioned one above it.
 *
 * A generated function knows its table by oid, which differs where a dump is restored.
 */
with recursive up as (
    select t.tgrelid, t.tgparentid
    from pg_trigger as t
    where t.tgrelid = i_relid and t.tgname = i_trigger_name
    union all
    select t.tgrelid, t.tgparentid
    from up
        join pg_trigger as t on t.oid = up.tgparentid
)
select u.tgrelid from up as u where u.tgparentid = 0;
$$;
