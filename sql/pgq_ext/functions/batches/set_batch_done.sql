create or replace function pgq_ext.set_batch_done(
    a_consumer text,
    a_subconsumer text,
    a_batch_id int8
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Notes that a batch is applied; false when it was noted already, then nothing has to be done.
 *
 * Call it in the transaction that applies the batch, and roll that back on false: of two that
 * apply the same batch one gets true, the other waits for it and gets false.
 *
 * Stores ids above 0 only; for others the answer is true, always.
 */
begin
    if a_batch_id is null or a_batch_id <= 0 then
        return true;
    end if;
    perform pgq_ext._require_values(a_consumer, a_subconsumer);
    insert into pgq_ext.completed_batch as c (consumer_id, subconsumer_id, last_batch_id)
    values (a_consumer, a_subconsumer, a_batch_id)
    on conflict on constraint completed_batch_pkey do update
    set last_batch_id = excluded.last_batch_id
    where c.last_batch_id <> excluded.last_batch_id;
    return found;
end;
$$;

create or replace function pgq_ext.set_batch_done(a_consumer text, a_batch_id int8)
returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The same for a consumer without workers.
 */
    select pgq_ext.set_batch_done(a_consumer, '', a_batch_id);
$$;
