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
 * The tables with our own capture for a queue (NULL: for any): each one's form, row or statement, and
 * why it has that one.
 *
 * The form is the one that the capture has.  Where the table has changed and another one would
 * be right now, the reason says so; refresh_capture() makes it.
 */
select c.table_name,
    v.form,
    case
        when v.form = f.form then f.reason
        else format('%s form after refresh_capture(): %s', f.form, f.reason)
    end
from londiste._captures(i_queue_name) as c
    join pg_proc as p on p.oid = c.function_id
    cross join lateral londiste._capture_form_of(c.relid, c.args, p.proowner) as f
    cross join lateral (
        select case when p.prosrc like '%   Form: statement.  Pinned:%' then 'statement' else 'row' end
    ) as v (form)
order by c.table_name;
$$;
