create or replace function pgq._position(i_sub pgq.registration)
returns pgq.registration
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns a row of pgq.registration with the current position of the consumer.
 *
 * sub_nr of the result is the number of that position, for _put_position().  Null when the
 * registration does not exist any more.  The function reads one position table only: a long
 * transaction must not keep the other one from being truncated.
 */
declare
    v_sub pgq.registration := i_sub;
    v_found pgq.registration;
    v_is_locked boolean := false;
begin
    if v_sub.sub_key is null then
        return null;
    end if;
    -- A plan made while the table was empty must not stay a scan of the whole table: hence
    -- enable_seqscan.
    loop
        if v_sub.sub_generation % 2 = 0 then
            select
                v_sub.sub_id, v_sub.sub_queue, v_sub.sub_consumer, p.pos_last_tick, p.pos_active,
                p.pos_batch, p.pos_next_tick, v_sub.sub_key, v_sub.sub_generation, p.pos_nr
            into v_found
            from pgq.position_0 p
            where p.pos_key = v_sub.sub_key and p.pos_nr > v_sub.sub_nr
            order by p.pos_nr desc
            limit 1;
            if found then
                return v_found;
            end if;
        else
            select
                v_sub.sub_id, v_sub.sub_queue, v_sub.sub_consumer, p.pos_last_tick, p.pos_active,
                p.pos_batch, p.pos_next_tick, v_sub.sub_key, v_sub.sub_generation, p.pos_nr
            into v_found
            from pgq.position_1 p
            where p.pos_key = v_sub.sub_key and p.pos_nr > v_sub.sub_nr
            order by p.pos_nr desc
            limit 1;
            if found then
                return v_found;
            end if;
        end if;
        if v_is_locked or pgq._has_positions(v_sub.sub_generation) then
            return v_sub;
        end if;
        -- The table was truncated after v_sub was read, so the position has moved.  The lock gives
        -- the newest row, or a serialization failure where the snapshot cannot change.
        select r.* into v_sub
        from pgq.registration r
        where r.sub_key = v_sub.sub_key
        for no key update;
        if not found then
            return null;
        end if;
        v_is_locked := true;
    end loop;
end;
$$;
