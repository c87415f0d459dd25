-- The view with the name and the columns that the table of subscriptions had: all roles may read
-- positions in it, and administrators may change them.  In this file, because it calls a function.
create or replace view pgq.subscription as
select
    r.sub_id,
    r.sub_queue,
    r.sub_consumer,
    p.sub_last_tick,
    p.sub_active,
    p.sub_batch,
    p.sub_next_tick
from pgq.registration r
cross join lateral pgq._read_position(r) as p;

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

create or replace function pgq._subscription_change()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts, updates and deletes subscriptions as if pgq.subscription were a table.
 *
 * An update of a position that another session has moved since the statement began is a
 * serialization failure, because its condition cannot be checked again here.  Call
 * pgq._lock_subscription() first where that can happen.
 */
declare
    v_sub pgq.registration;
begin
    if tg_op = 'INSERT' then
        insert into pgq.registration (
            sub_id, sub_queue, sub_consumer, sub_last_tick, sub_active, sub_batch, sub_next_tick,
            sub_generation
        )
        values (
            coalesce(new.sub_id, nextval('pgq.subscription_sub_id_seq')), new.sub_queue,
            new.sub_consumer, new.sub_last_tick, coalesce(new.sub_active, now()), new.sub_batch,
            new.sub_next_tick, pgq._position_generation()
        )
        returning sub_id, sub_active into new.sub_id, new.sub_active;
        return new;
    end if;

    select r.*
    into v_sub
    from pgq.registration r
    where r.sub_queue = old.sub_queue and r.sub_consumer = old.sub_consumer
    for update;
    if not found then
        return null;
    end if;
    v_sub := pgq._position(v_sub);
    if (v_sub.sub_last_tick, v_sub.sub_active, v_sub.sub_batch, v_sub.sub_next_tick)
        is distinct from (old.sub_last_tick, old.sub_active, old.sub_batch, old.sub_next_tick)
    then
        raise exception using
            errcode = 'serialization_failure',
            message = 'could not serialize access due to concurrent update of a subscription',
            detail = format('queue_id %s, co_id %s', old.sub_queue, old.sub_consumer),
            hint = 'try the transaction again';
    end if;

    if tg_op = 'DELETE' then
        delete from pgq.registration where sub_key = v_sub.sub_key;
        return old;
    end if;
    if (new.sub_id, new.sub_queue, new.sub_consumer)
        is distinct from (old.sub_id, old.sub_queue, old.sub_consumer)
    then
        update pgq.registration
        set sub_id = new.sub_id,
            sub_queue = new.sub_queue,
            sub_consumer = new.sub_consumer
        where sub_key = v_sub.sub_key;
    end if;
    if not pgq._put_position(
        v_sub, new.sub_last_tick, new.sub_batch, new.sub_next_tick, new.sub_active
    ) then
        raise exception using
            errcode = 'serialization_failure',
            message = 'could not serialize access due to concurrent update of a subscription',
            detail = format('queue_id %s, co_id %s', old.sub_queue, old.sub_consumer),
            hint = 'try the transaction again';
    end if;
    return new;
end;
$$;

create or replace trigger subscription_change
instead of insert or update or delete on pgq.subscription
for each row execute function pgq._subscription_change();
