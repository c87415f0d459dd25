create or replace function pgq_coop._is_subconsumer(i_subscription pgq.subscription)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether a subscription is that of a worker: it shares its number with one whose name is the
 * part in front of a dot.  Positions do not tell; a main consumer may have a batch open too.
 */
    select exists (
        select 1
        from pgq.subscription s
        join pgq.consumer main on main.co_id = s.sub_consumer
        join pgq.consumer own on own.co_id = i_subscription.sub_consumer
        where s.sub_queue = i_subscription.sub_queue
            and s.sub_id = i_subscription.sub_id
            and s.sub_consumer <> i_subscription.sub_consumer
            and starts_with(own.co_name, main.co_name || '.')
    );
$$;
