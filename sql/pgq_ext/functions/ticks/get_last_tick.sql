create or replace function pgq_ext.get_last_tick(a_consumer text, a_subconsumer text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Returns the tick up to which a consumer has applied everything in this database; null for none.
 */
begin
    return (
        select last_tick_id
        from pgq_ext.completed_tick
        where consumer_id = a_consumer and subconsumer_id = a_subconsumer
        order by move_nr desc
        limit 1
    );
end;
$$;

create or replace function pgq_ext.get_last_tick(a_consumer text)
returns int8
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tick up to which a consumer without workers has applied everything; null for none.
 */
    select pgq_ext.get_last_tick(a_consumer, '');
$$;
