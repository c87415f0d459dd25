create or replace function londiste.lost_captures(
    i_queue_name text,
    out table_name text,
    out reason text)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * The local tables of a queue that had our own capture and have it no more: nothing that is
 * written to the table of that name comes into the queue.
 *
 * The function of a capture outlives its triggers, so tables that were added without
 * triggers are not among these.
 */
select t.table_name,
    case
        when c.oid is null then 'is gone, or has another name'
        when exists (
            select from pg_trigger as g
            where g.tgrelid = c.oid and g.tgfoid = p.oid and g.tgenabled not in ('O', 'A') and g.tgqual is null)
        then 'has its capture trigger disabled'
        else 'has lost its capture trigger'
    end
from londiste.table_info as t
    cross join lateral (select coalesce(t.dest_table, t.table_name) as name) as d
    join pg_proc as p
        on p.pronamespace = 'londiste'::regnamespace
        and p.proname = londiste._capture_name(t.queue_name, d.name)
    left join pg_class as c on c.oid = londiste._capture_relation(d.name)
where t.queue_name = i_queue_name
    and t.local
    and not exists (
        select from pg_trigger as g
        where g.tgrelid = c.oid
            and g.tgfoid = p.oid
            and g.tgname = londiste.trigger_name(i_queue_name)
            and g.tgenabled in ('O', 'A')
            -- The statement form has a trigger for each kind of change.
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
order by t.nr;
$$;
