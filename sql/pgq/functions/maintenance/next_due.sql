create or replace function pgq.next_due()
returns timestamptz
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * When maint_retry_events() will have something to do next; null when nothing waits.
 *
 * Cheap enough to be asked every second.  Events of queues that take none do not count: they
 * would have been due long ago.
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
