create or replace function pgq_ext.set_batch_done(
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
 * Stores that a batch is applied.  Returns false when it was stored already.
 *
 * Call it in the transaction that applies the batch, and roll that transaction back on false.  Of two
 * transactions that apply the same batch one gets true.  The other waits for it and gets false.
 *
 * The function stores only ids above 0; for other ids it always returns true.
 */
declare
    v_nr int8;
    v_batch int8;
    v_first int8;
begin
    if a_batch_id is null or a_batch_id <= 0 then
        return true;
    end if;
    perform pgq_ext._require_values(a_consumer, a_subconsumer);
    loop
        select move_nr, last_batch_id into v_nr, v_batch
        from pgq_ext.completed_batch
        where consumer_id = a_consumer and subconsumer_id = a_subconsumer
        order by move_nr desc
        limit 1;
        if found and v_batch = a_batch_id then
            return false;
        elsif found then
            update pgq_ext.completed_batch
            set last_batch_id = a_batch_id, move_nr = v_nr + 1
            where consumer_id = a_consumer and subconsumer_id = a_subconsumer and move_nr = v_nr;
        elsif v_first is null then
            v_first := pgq_ext._first_nr(a_consumer, a_subconsumer);
            continue;
        else
            insert into pgq_ext.completed_batch (
                consumer_id, subconsumer_id, last_batch_id, move_nr
            )
            values (a_consumer, a_subconsumer, a_batch_id, v_first);
        end if;
        -- Not found: another transaction has moved it since, perhaps to this batch.
        exit when found;
    end loop;
    return true;
end;
$$;

create or replace function pgq_ext.set_batch_done(a_consumer text, a_batch_id int8)
returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores that a batch is applied, for a consumer without workers.
 */
    select pgq_ext.set_batch_done(a_consumer, '', a_batch_id);
$$;
