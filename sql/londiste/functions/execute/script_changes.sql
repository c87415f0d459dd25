create or replace function londiste.script_changes(
    i_before jsonb,
    out table_name text,
    out change text)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the replicated tables that a script has changed, and how.
 *
 * i_before -- the result of script_guard() before the script.
 * change -- gone: dropped, renamed or recreated; columns: other columns or types; ours (without
 *     table_name): Londiste's own schemas have changed.
 */
select t.key,
    case when split_part(t.now, ' ', 1) = split_part(t.value, ' ', 1) then 'columns' else 'gone' end
from (
    select b.key, b.value, coalesce(londiste._script_shape(b.key), '') as now
    from jsonb_each_text(i_before -> 'tables') b
    where b.value is not null
) t
where t.now <> t.value
union all
select null, 'ours'
where londiste.script_guard() ->> 'ours' is distinct from i_before ->> 'ours';
$$;
