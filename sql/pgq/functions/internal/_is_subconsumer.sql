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
 * Whether a subscription is that of a cooperative worker: it shares its number with one whose name is the
 * part in front of a dot.  Positions do not tell; a main consumer may have a batch open too.
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
