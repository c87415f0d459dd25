create or replace function pgq.first_refused_event(
    i_queue_name text,
    i_types text[],
    i_tables text[]
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the number of the first of some events that a node refuses from roles that are no
 * administrators.  Returns null if there is none, or if the queue is no node of a cascade.
 *
 * For administrators' programs that insert events of others, such as the queue mover: they must not
 * pass on what the others may not insert.  Call it after the insert, in the same transaction: from
 * then on the queue cannot become a node.
 *
 * i_types -- ev_type of each event.
 * i_tables -- ev_extra1 of each event.
 */
declare
    v_first int8;
begin
    if not exists (
        select from pgq.queue where queue_name = i_queue_name and queue_replicated
    ) then
        return null;
    end if;
    -- Many events have the same type and table.
    select min(e.nr) into v_first
    from (
        select u.type, u.name, min(u.nr) as nr
        from unnest(i_types, i_tables) with ordinality as u (type, name, nr)
        group by u.type, u.name
    ) as e
    where pgq._is_applied(e.type) or pgq._is_replicated(i_queue_name, e.name);
    return v_first;
end;
$$;
