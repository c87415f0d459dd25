create or replace function pgq.get_queue_config(
    i_queue_name text,
    out param_name text,
    out param_value text,
    out description text
)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns all parameters of a queue that set_queue_config() accepts, with a description.
 *
 * param_value -- the value as text; null where no value is set.
 */
begin
    perform 1 from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such event queue', i_queue_name);
    end if;
    for param_name, description in
        select p.name, col_description(a.attrelid, a.attnum)
        from pgq._queue_parameters() as p
        join pg_attribute a
            on a.attrelid = 'pgq.queue'::regclass and a.attname = 'queue_' || p.name
        order by p.nr
    loop
        execute format(
            'select %I::text from pgq.queue where queue_name = $1', 'queue_' || param_name
        )
        into param_value
        using i_queue_name;
        return next;
    end loop;
end;
$$;
