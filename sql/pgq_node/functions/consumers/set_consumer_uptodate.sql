create or replace function pgq_node.set_consumer_uptodate(
    i_queue_name text,
    i_consumer_name text,
    i_uptodate boolean,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores that a consumer has seen the last change of its provider and of its pause flag.
 *
 * ret_code -- 200 stored; 404 unknown consumer.
 */
begin
    update pgq_node.local_state
    set uptodate = i_uptodate
    where queue_name = i_queue_name and consumer_name = i_consumer_name;
    if not found then
        select 404, 'Unknown consumer: ' || coalesce(i_queue_name, 'NULL') || '/'
            || coalesce(i_consumer_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select 200, 'Consumer uptodate = ' || i_uptodate::int4::text into ret_code, ret_note;
end;
$$;
