create or replace function pgq._open_batch(i_batch_id int8)
returns pgq.registration
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns the registration with an open batch, as _position() does; null when it is not open.
 *
 * Nearly always it is in the current position table; only otherwise are the others read.
 */
declare
    v_sub pgq.registration;
    v_generation int8;
    v_current int4;
    v_place int4;
    v_key int8;
begin
    v_generation := (select ps_generation from pgq.position_state where ps_id = 1);
    v_current := v_generation % 2;
    -- A plan may be made while the table is empty and kept while it grows.  Only the index on
    -- pos_batch returns a range in order, so it is used; a plain "=" could become a scan of all.
    foreach v_place in array array[v_current, 1 - v_current] loop
        if v_place = 0 then
            for v_key in
                select pos_key
                from pgq.position_0
                where pos_batch >= i_batch_id and pos_batch <= i_batch_id
                order by pos_batch
            loop
                select * into v_sub from pgq.registration where sub_key = v_key;
                v_sub := pgq._position(v_sub);
                if v_sub.sub_batch = i_batch_id then
                    return v_sub;
                end if;
            end loop;
        else
            for v_key in
                select pos_key
                from pgq.position_1
                where pos_batch >= i_batch_id and pos_batch <= i_batch_id
                order by pos_batch
            loop
                select * into v_sub from pgq.registration where sub_key = v_key;
                v_sub := pgq._position(v_sub);
                if v_sub.sub_batch = i_batch_id then
                    return v_sub;
                end if;
            end loop;
        end if;
    end loop;

    select * into v_sub from pgq.registration where sub_batch = i_batch_id;
    v_sub := pgq._position(v_sub);
    if v_sub.sub_batch = i_batch_id then
        return v_sub;
    end if;

    -- A snapshot from before a table was truncated does not see the batch where it is now.
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
        and not (
            pgq._has_positions(v_generation)
            and (
                pgq._has_positions(v_generation - 1)
                or not exists (
                    select 1 from pgq.registration where sub_generation < v_generation
                )
            )
        )
    then
        raise exception using
            errcode = 'serialization_failure',
            message = 'could not serialize access: positions have moved to another table',
            detail = format('batch %s, generation %s', i_batch_id, v_generation),
            hint = 'try the transaction again';
    end if;
    return null;
end;
$$;
