create or replace function pgq.cached_sequences(
    out queue_name text,
    out sequence_name text,
    out cache_size int8
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns sequences of queues that hand out ids in blocks (CACHE above 1).
 *
 * The result should be empty.  When sessions have blocks of their own, a later change of a row can get
 * a lower id, and batches are in the order of ids.  Repair: alter sequence ... cache 1
 */
    select q.queue_name, n.name, s.seqcache
    from pgq.queue q
    cross join lateral (values (q.queue_event_seq), (q.queue_tick_seq)) as n (name)
    join pg_sequence s on s.seqrelid = to_regclass(pgq.quote_fqname(n.name))
    where s.seqcache > 1
    order by 1, 2;
$$;
