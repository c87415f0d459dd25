create or replace function pgq_ext.set_last_tick(
    a_consumer text,
    a_subconsumer text,
    a_tick_id int8
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Stores the tick up to which a consumer has applied everything.  Returns 1.
 *
 * a_tick_id -- null deletes the position.  The function accepts every tick, also an earlier one.
 *
 * Call it in the transaction that applies the batch which ends at the tick.
 */
declare
    v_nr int8;
    v_first int8;
begin
    perform pgq_ext._require_values(a_consumer, a_subconsumer);
    if a_tick_id is null then
        delete from pgq_ext.completed_tick
        where consumer_id = a_consumer and subconsumer_id = a_subconsumer;
        return 1;
    end if;
    loop
        select move_nr into v_nr
        from pgq_ext.completed_tick
        where consumer_id = a_consumer and subconsumer_id = a_subconsumer
        order by move_nr desc
        limit 1;
        if found then
            update pgq_ext.completed_tick
            set last_tick_id = a_tick_id, move_nr = v_nr + 1
            where consumer_id = a_consumer and subconsumer_id = a_subconsumer and move_nr = v_nr;
        elsif v_first is null then
            v_first := pgq_ext._first_nr(a_consumer, a_subconsumer);
            continue;
        else
            insert into pgq_ext.completed_tick (
                consumer_id, subconsumer_id, last_tick_id, move_nr
            )
            values (a_consumer, a_subconsumer, a_tick_id, v_first);
        end if;
        -- Not found: another transaction has moved it since.
        exit when found;
    end loop;
    return 1;
end;
$$;

create or replace function pgq_ext.set_last_tick(a_consumer text, a_tick_id int8)
returns int4
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the tick up to which a consumer without workers has applied everything.  Returns 1.
 */
    select pgq_ext.set_last_tick(a_consumer, '', a_tick_id);
$$;
