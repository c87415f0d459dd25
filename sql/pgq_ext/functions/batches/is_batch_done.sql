create or replace function pgq_ext.is_batch_done(
    a_consumer text,
    a_subconsumer text,
    a_batch_id int8
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Returns whether this is the batch that set_batch_done() stored last.  Earlier batches are forgotten.
 */
begin
    return coalesce(
        (
            select last_batch_id = a_batch_id
            from pgq_ext.completed_batch
            where consumer_id = a_consumer and subconsumer_id = a_subconsumer
            order by move_nr desc
            limit 1
        ),
        false
    );
end;
$$;

create or replace function pgq_ext.is_batch_done(a_consumer text, a_batch_id int8)
returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether this is the last stored batch of a consumer without workers.
 */
    select pgq_ext.is_batch_done(a_consumer, '', a_batch_id);
$$;
