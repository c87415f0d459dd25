create or replace function londiste._is_stale_capture(i_relid oid, i_function oid, i_args text[])
returns bool
language sql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Returns whether a capture differs from what would be created for its table now.
 *
 * A new index for the same key, as after a copy, is no difference: only the mark of _capture_changed()
 * is another one then.
 */
select regexp_replace(p.prosrc, m.mark, '', 'g')
        <> regexp_replace(londiste._capture_body(i_relid, i_args, p.proowner), m.mark, '', 'g')
    or p.proname <> londiste._capture_name(i_args[1], londiste._plain_name(i_relid))
    or p.pronamespace <> 'londiste_capture'::regnamespace
    or exists (select from londiste._capture_grants(i_relid, i_function))
    or exists (
        select from londiste._capture_triggers(i_relid, i_args, p.proowner) as w
        where w.deferred
            and not exists (
                select from pg_trigger as t
                where t.tgrelid = i_relid and t.tgfoid = p.oid and t.tgname = w.name and t.tgdeferrable))
from pg_proc as p
    cross join (values (
        $re$londiste\._capture_mark\([^)]*\) operator\(pg_catalog\.<>\) +E?'([^']|'')*'$re$)) as m (mark)
where p.oid = i_function;
$$;
