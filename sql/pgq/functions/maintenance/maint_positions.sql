create or replace function pgq.maint_positions()
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Frees the space of old consumer positions.  Always returns 0; most calls do nothing.
 *
 * Needs a transaction of its own.  The work takes several calls:
 *
 *     1. The current position table is large and the other one is empty: they are switched.
 *        Consumers move to the other table with their next batch.
 *     2. Consumers that have not moved since are moved.
 *     3. A minute after the last consumer has moved, the table that they left is truncated.
 *
 * The function waits for no lock, because consumers would queue up after it.
 */
declare
    v_large constant int8 := 4 * 1024 * 1024;
    -- A snapshot older than the moves sees, in the truncated table, positions of the switch
    -- before.  Statements and dumps take their locks within this time after their snapshot.
    v_grace constant interval := '1 minute';
    v_state pgq.position_state;
    v_sub pgq.registration;
    v_current regclass;
    v_other regclass;
begin
    perform pgq._require_read_committed();
    select * into v_state from pgq.position_state where ps_id = 1 for update skip locked;
    if not found then
        return 0;
    end if;
    v_current := 'pgq.position_' || v_state.ps_generation % 2;
    v_other := 'pgq.position_' || (v_state.ps_generation + 1) % 2;

    if pg_relation_size(v_other) = 0 then
        if pg_relation_size(v_current) >= v_large then
            execute format(
                'insert into %s (pos_key, pos_nr, pos_active) values (0, $1, now())', v_other
            )
            using v_state.ps_generation + 1;
            update pgq.position_state
            set ps_generation = ps_generation + 1, ps_settled = null
            where ps_id = 1;
        end if;
        return 0;
    end if;

    for v_sub in
        select r.*
        from pgq.registration r
        where r.sub_generation < v_state.ps_generation
        for no key update skip locked
    loop
        v_sub := pgq._position(v_sub);
        perform pgq._put_position(
            v_sub, v_sub.sub_last_tick, v_sub.sub_batch, v_sub.sub_next_tick, v_sub.sub_active
        );
    end loop;
    if exists (
        select 1 from pgq.registration where sub_generation < v_state.ps_generation
    ) then
        -- A consumer is working on it at this moment.
        return 0;
    end if;
    if v_state.ps_settled is null then
        update pgq.position_state set ps_settled = clock_timestamp() where ps_id = 1;
        return 0;
    end if;
    if v_state.ps_settled + v_grace > clock_timestamp() then
        return 0;
    end if;

    begin
        execute format('lock table only %s in access exclusive mode nowait', v_other);
        -- Checked again, because now no session can be writing there.
        if not exists (
            select 1 from pgq.registration where sub_generation < v_state.ps_generation
        ) then
            execute format('truncate only %s', v_other);
        end if;
    exception
        when lock_not_available then
            return 0;
    end;
    return 0;
end;
$$;
