-- What there is to know about the queues of this database.  Everybody may ask.
-- %(queue)s -- one queue, or null for all.
select
    q.queue_name as name,
    q.queue_external_ticker as external_ticker,
    q.queue_ticker_paused as ticker_paused,
    q.queue_disable_insert as disable_insert,
    extract(epoch from q.queue_ticker_max_lag)::float8 as max_lag,
    extract(epoch from q.queue_ticker_idle_period)::float8 as idle_period,
    extract(epoch from q.queue_rotation_period)::float8 as rotation_period,
    extract(epoch from clock_timestamp() - q.queue_switch_time)::float8 as switch_age,
    q.queue_switch_step2 as switch_step2,
    q.queue_switch_step1 as switch_step1,
    newest.tick_id as tick,
    extract(epoch from clock_timestamp() - newest.tick_time)::float8 as tick_age,
    txid_snapshot_xmin(newest.tick_snapshot) as tick_xmin,
    ticks.number as ticks,
    taken.last as last_id,
    taken.last - newest.tick_event_seq as new_events,
    (newest.tick_event_seq - base.tick_event_seq)
        / nullif(greatest(extract(epoch from newest.tick_time - base.tick_time), 0), 0)::float8
        as events_per_sec,
    coalesce(greatest(
        extract(epoch from newest.tick_time - clock_timestamp())::float8,
        extract(epoch from earlier.tick_time - newest.tick_time)::float8), 0) as clock_back,
    (select coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::int8
     from pg_inherits i
     where i.inhparent = to_regclass(q.queue_data_pfx)) as bytes,
    coalesce((select s.seqcache from pg_sequence s
              where s.seqrelid = to_regclass(q.queue_event_seq)), 1) as sequence_cache,
    q.queue_event_seq as sequence,
    txid_snapshot_xmax(txid_current_snapshot()) as current_xid,
    home.is_at_home
from pgq.queue q
left join lateral (
    select t.* from pgq.tick t where t.tick_queue = q.queue_id order by t.tick_id desc limit 1
) as newest on true
left join lateral (
    select t.tick_time, t.tick_event_seq
    from pgq.tick t
    where t.tick_queue = q.queue_id and t.tick_id >= newest.tick_id - 20
    order by t.tick_id
    limit 1
) as base on true
left join lateral (
    -- Of the ticks from which something is measured: the last ones, and those of consumers.
    select greatest(
        (select max(t.tick_time) from pgq.tick t
         where t.tick_queue = q.queue_id and t.tick_id >= newest.tick_id - 20),
        (select max(t.tick_time)
         from pgq.subscription s
         join pgq.tick t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
         where s.sub_queue = q.queue_id)) as tick_time
) as earlier on true
cross join lateral (
    select coalesce(pg_sequence_last_value(q.queue_event_seq::regclass), 0) as last
) as taken
cross join lateral (
    -- More than two are enough to know.
    select count(*) as number
    from (select 1 from pgq.tick t where t.tick_queue = q.queue_id limit 3) as few
) as ticks
-- Once, not for each queue.
cross join (select pgq._is_at_home() as is_at_home offset 0) as home
where %(queue)s::text is null or q.queue_name = %(queue)s::text
order by q.queue_name;
