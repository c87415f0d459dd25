create or replace function pgq.next_due()
returns timestamptz
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the time of the next work for maint_retry_events(); null when no event waits.
 *
 * Cheap enough to be called every second.  Events of queues that accept none do not count, because
 * they are due already.
 */
    select least(
        (
            select r.ev_retry_after
            from pgq.retry_queue r
            where r.ev_queue in (select pgq._queues_that_take_events())
            order by r.ev_retry_after
            limit 1
        ),
        (
            select min(d.ev_send_at)
            from pgq._queues_that_take_events() as q (id)
            cross join lateral (
                select w.ev_send_at
                from pgq.delayed_event w
                where w.ev_queue = q.id
                order by w.ev_send_at
                limit 1
            ) as d
        )
    );
$$;
