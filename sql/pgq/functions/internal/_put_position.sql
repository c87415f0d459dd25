create or replace function pgq._put_position(
    i_from pgq.registration,
    i_last_tick int8,
    i_batch int8,
    i_next_tick int8,
    i_active timestamptz default now()
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves a consumer from the position i_from, a result of _position().  False if it is not there.
 *
 * Raises 42501 if the session may not use the consumer.  A stricter isolation level gets a
 * serialization failure instead of false.
 *
 * The row lock on the registration keeps others from moving it to another table and from
 * removing it.  The number of the position does the rest: the second session to leave the same
 * position finds it in the index, whatever its snapshot sees.
 */
declare
    v_generation int8;
begin
    perform pgq._require_owner(i_from.sub_queue, i_from.sub_consumer, 'use');
    if i_from.sub_generation % 2 = 0 then
        insert into pgq.position_0 (
            pos_key, pos_nr, pos_last_tick, pos_active, pos_batch, pos_next_tick
        )
        select r.sub_key, i_from.sub_nr + 1, i_last_tick, i_active, i_batch, i_next_tick
        from pgq.registration r
        where r.sub_key = i_from.sub_key and r.sub_generation = i_from.sub_generation
        for no key update
        on conflict do nothing;
    else
        insert into pgq.position_1 (
            pos_key, pos_nr, pos_last_tick, pos_active, pos_batch, pos_next_tick
        )
        select r.sub_key, i_from.sub_nr + 1, i_last_tick, i_active, i_batch, i_next_tick
        from pgq.registration r
        where r.sub_key = i_from.sub_key and r.sub_generation = i_from.sub_generation
        for no key update
        on conflict do nothing;
    end if;
    if not found then
        return false;
    end if;

    select ps_generation into v_generation from pgq.position_state where ps_id = 1;
    if v_generation > i_from.sub_generation then
        -- Later positions go into the other table.  The row above only marks that this one was left.
        update pgq.registration
        set sub_last_tick = i_last_tick,
            sub_active = i_active,
            sub_batch = i_batch,
            sub_next_tick = i_next_tick,
            sub_generation = v_generation,
            sub_nr = i_from.sub_nr + 1
        where sub_key = i_from.sub_key;
    elsif i_from.sub_batch <> i_batch or (i_from.sub_batch is not null and i_batch is null) then
        -- The first batch after a move is also in the registration, under a unique index.  It
        -- may become that of a cooperative worker, which moves with it.
        update pgq.registration
        set sub_batch = null,
            sub_next_tick = null
        where sub_key = i_from.sub_key and sub_batch = i_from.sub_batch;
    end if;
    return true;
end;
$$;
