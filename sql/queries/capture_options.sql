/*
 * The options that the native capture of a table was made with; no row when nothing is left of it.
 *
 * Its triggers show them, or those of the table that had its name before.  Its function, which stays when
 * they are dropped, has them in its comment; NULL where a version made it that did not write them there.
 *
 * %(table)s -- schema.name in this database.
 */
select c.args[3:]
from londiste._captures(%(queue)s) as c
where c.relid = londiste.find_table_oid(%(table)s)
union all
select c.args[3:]
from londiste.table_info as t
    cross join lateral londiste.stray_captures(%(queue)s, t.table_name) as s
    join londiste._captures(%(queue)s) as c on c.function_id = s.function_id
where t.queue_name = %(queue)s
    and t.local
    and coalesce(t.dest_table, t.table_name) = %(table)s
    and not exists (
        select from pg_catalog.pg_trigger as g
        where g.tgrelid = londiste.find_table_oid(%(table)s)
            and g.tgname = londiste.trigger_name(%(queue)s))
union all
select case
        when d.value -> 'options' is not null
        then array(select json_array_elements_text(d.value -> 'options'))
    end
from pg_catalog.pg_proc as p
    cross join lateral (select pg_catalog.obj_description(p.oid, 'pg_proc')::json) as d (value)
where p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
    and p.proname = londiste._capture_name(%(queue)s, %(table)s)
    and not exists (
        select from londiste._captures(%(queue)s) as c
        where c.relid = londiste.find_table_oid(%(table)s))
