create or replace function pgq._is_subconsumer(
    i_sub_id int4,
    i_queue_id int4,
    i_consumer_id int4
)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a subscription is that of a cooperative worker.
 *
 * Such a worker shares its number with a consumer whose name is the part before a dot.  Positions do
 * not distinguish them; a main consumer may have an open batch too.
 */
    select exists (
        select 1
        from pgq.registration s
        join pgq.consumer main on main.co_id = s.sub_consumer
        join pgq.consumer own on own.co_id = i_consumer_id
        where s.sub_queue = i_queue_id
            and s.sub_id = i_sub_id
            and s.sub_consumer <> i_consumer_id
            and starts_with(own.co_name, main.co_name || '.')
    );
$$;
