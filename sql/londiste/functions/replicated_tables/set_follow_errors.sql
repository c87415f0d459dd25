create or replace function londiste.set_follow_errors(
    i_queue_name text,
    i_names text[],
    i_messages text[])
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the tables and sequences that a node could not add automatically.  Returns their number.
 *
 * The new list replaces the stored one.
 *
 * i_names, i_messages -- names in the queue, and the reasons, in the same order.
 */
begin
    delete from londiste.follow_error
    where queue_name = i_queue_name and object_name <> all (i_names);
    insert into londiste.follow_error as f (queue_name, object_name, message)
    select i_queue_name, n.name, n.message
    from unnest(i_names, i_messages) as n (name, message)
    on conflict (queue_name, object_name) do update
        set message = excluded.message, first_seen = now()
        where f.message <> excluded.message;
    return coalesce(array_length(i_names, 1), 0);
end;
$$;
