create or replace function pgq._raise_insert_disabled(i_queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD102: the queue takes its events from another node.
 */
begin
    raise exception using
        errcode = 'LD102',
        message = 'Insert into queue disallowed',
        detail = format('queue %s does not accept events in this database', i_queue_name),
        hint = 'write on the root node of the cascade, or enable it: '
            || format('select pgq.set_queue_config(%L, %L, %L)',
                      i_queue_name, 'disable_insert', 'false');
end;
$$;
