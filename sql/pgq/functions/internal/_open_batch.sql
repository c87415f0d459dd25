create or replace function pgq._open_batch(i_batch_id int8)
returns pgq.registration
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
/*
 * The registration with an open batch, as _position() answers it; null when it is not open.
 *
 * Nearly always it is in the current position table; only otherwise are the others looked at.
 */
declare
    v_sub pgq.registration;
    v_current int4;
    v_place int4;
begin
    v_current := (select ps_generation % 2 from pgq.position_state where ps_id = 1);
    foreach v_place in array array[v_current, 1 - v_current, 2] loop
        if v_place = 0 then
            for v_sub in
                select r.*
                from pgq.registration r
                where r.sub_key in (select pos_key from pgq.position_0 where pos_batch = i_batch_id)
            loop
                v_sub := pgq._position(v_sub);
                if v_sub.sub_batch = i_batch_id then
                    return v_sub;
                end if;
            end loop;
        elsif v_place = 1 then
            for v_sub in
                select r.*
                from pgq.registration r
                where r.sub_key in (select pos_key from pgq.position_1 where pos_batch = i_batch_id)
            loop
                v_sub := pgq._position(v_sub);
                if v_sub.sub_batch = i_batch_id then
                    return v_sub;
                end if;
            end loop;
        else
            select r.* into v_sub from pgq.registration r where r.sub_batch = i_batch_id;
            if found then
                v_sub := pgq._position(v_sub);
                if v_sub.sub_batch = i_batch_id then
                    return v_sub;
                end if;
            end if;
        end if;
    end loop;
    return null;
end;
$$;
