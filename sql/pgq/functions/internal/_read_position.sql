create or replace function pgq._read_position(i_sub pgq.registration)
returns pgq.registration
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns the result of _position() for the view pgq.subscription, as of the statement's snapshot.
 *
 * A snapshot that is older than the last move to another table, and reads after the table was
 * truncated, gets the position before.
 */
declare
    v_found pgq.registration;
begin
    -- Not in the view itself, where a plan made while the tables were empty would scan them whole.
    if i_sub.sub_generation % 2 = 0 then
        select
            i_sub.sub_id, i_sub.sub_queue, i_sub.sub_consumer, p.pos_last_tick, p.pos_active,
            p.pos_batch, p.pos_next_tick, i_sub.sub_key, i_sub.sub_generation, p.pos_nr
        into v_found
        from pgq.position_0 p
        where p.pos_key = i_sub.sub_key and p.pos_nr > i_sub.sub_nr
        order by p.pos_nr desc
        limit 1;
    else
        select
            i_sub.sub_id, i_sub.sub_queue, i_sub.sub_consumer, p.pos_last_tick, p.pos_active,
            p.pos_batch, p.pos_next_tick, i_sub.sub_key, i_sub.sub_generation, p.pos_nr
        into v_found
        from pgq.position_1 p
        where p.pos_key = i_sub.sub_key and p.pos_nr > i_sub.sub_nr
        order by p.pos_nr desc
        limit 1;
    end if;
    if found then
        return v_found;
    end if;
    return i_sub;
end;
$$;
