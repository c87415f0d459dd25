-- The view with the name and the columns that the table of subscriptions had: everybody may read
-- positions in it, and administrators may change them (pgq._subscription_change).
create view pgq.subscription as
select
    r.sub_id,
    r.sub_queue,
    r.sub_consumer,
    p.pos_last_tick as sub_last_tick,
    p.pos_active as sub_active,
    p.pos_batch as sub_batch,
    p.pos_next_tick as sub_next_tick
from pgq.registration r
cross join lateral (
    (
        select pos_nr, pos_last_tick, pos_active, pos_batch, pos_next_tick
        from pgq.position_0
        where pos_key = r.sub_key and pos_nr > r.sub_nr and r.sub_generation % 2 = 0
        order by pos_nr desc
        limit 1
    )
    union all
    (
        select pos_nr, pos_last_tick, pos_active, pos_batch, pos_next_tick
        from pgq.position_1
        where pos_key = r.sub_key and pos_nr > r.sub_nr and r.sub_generation % 2 = 1
        order by pos_nr desc
        limit 1
    )
    union all
    select r.sub_nr, r.sub_last_tick, r.sub_active, r.sub_batch, r.sub_next_tick
    order by pos_nr desc
    limit 1
) as p;

comment on view pgq.subscription is 'consumers of queues and their positions';
comment on column pgq.subscription.sub_id
is 'number of the subscription, owner of its retried events; shared by cooperative consumers';
comment on column pgq.subscription.sub_queue is 'queue_id of the queue';
comment on column pgq.subscription.sub_consumer is 'co_id of the consumer';
comment on column pgq.subscription.sub_last_tick
is 'tick up to which everything is finished; null for an idle cooperative consumer';
comment on column pgq.subscription.sub_active is 'when a batch was last opened or finished';
comment on column pgq.subscription.sub_batch is 'open batch; null when there is none';
comment on column pgq.subscription.sub_next_tick is 'tick at which the open batch ends';
