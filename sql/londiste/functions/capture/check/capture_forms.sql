create or replace function londiste.capture_forms(
    i_queue_name text,
    out table_name text,
    out form text,
    out reason text)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables with a native capture, with their capture mode (form) and its reason.
 *
 * i_queue_name -- NULL: all queues.
 * form -- row or statement: the present capture mode.
 * reason -- why the table has it.  If the table has changed and another mode would be right now, the
 *     reason says so; refresh_capture() switches to it.  A table that another session has locked is
 *     not compared, which would wait: its reason says that.
 */
with elsewhere as materialized (
    select londiste._tables_locked_elsewhere() as locked
)
select c.table_name,
    v.form,
    case
        when f.form is null then 'not known: another session has locked the table'
        when v.form = f.form then f.reason
        else format('%s form after refresh_capture(): %s', f.form, f.reason)
    end
from elsewhere as e
    cross join londiste._captures(i_queue_name) as c
    join pg_proc as p on p.oid = c.function_id
    -- Of no table it returns nothing.
    cross join lateral londiste._capture_form_of(
        case when c.relid <> all (e.locked) then c.relid end, c.args, p.proowner) as f
    cross join lateral (
        select case when p.prosrc like '%   Form: statement.  Pinned:%' then 'statement' else 'row' end
    ) as v (form)
order by c.table_name;
$$;
