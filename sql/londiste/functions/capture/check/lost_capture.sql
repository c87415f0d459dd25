create or replace function londiste.lost_capture(
    i_queue_name text, i_table_name text)
returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns why changes of a table no longer reach the queue; NULL while they do.
 *
 * i_table_name -- name of the table in this database.
 *
 * NULL also for tables that never had a native capture.  The function of a capture outlives its
 * triggers, which shows that a capture is lost.
 */
select
    case
        when c.oid is null then 'is gone, or has another name'
        when exists (
            select from pg_trigger as g
            where g.tgrelid = c.oid and g.tgfoid = p.oid and g.tgenabled not in ('O', 'A') and g.tgqual is null)
        then 'has its capture trigger disabled'
        else 'has lost its capture trigger'
    end
from pg_proc as p
    left join pg_class as c on c.oid = londiste._capture_relation(i_table_name)
where p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
    and p.proname = londiste._capture_name(i_queue_name, i_table_name)
    and not exists (
        select from pg_trigger as g
        where g.tgrelid = c.oid
            and g.tgfoid = p.oid
            and g.tgname = londiste.trigger_name(i_queue_name)
            and g.tgenabled in ('O', 'A')
            and exists (
                select from pg_trigger as e
                where e.tgrelid = c.oid
                    and e.tgfoid = p.oid
                    and e.tgname = londiste.trigger_name(i_queue_name, 'truncate')
                    and e.tgenabled in ('O', 'A'))
            -- The statement form has a trigger for each operation.
            and not exists (
                select from (values ('I', 4), ('D', 8), ('U', 16)) as k (letter, bit)
                where position(k.letter in
                        (londiste._capture_options((londiste._trigger_args(g.tgargs))[3:])).ops) > 0
                    and not exists (
                        select from pg_trigger as e
                        where e.tgrelid = c.oid
                            and e.tgfoid = p.oid
                            and e.tgtype & k.bit <> 0
                            and e.tgqual is null
                            and e.tgenabled in ('O', 'A'))))
$$;
