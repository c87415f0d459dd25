create or replace function pgq._has_positions(i_generation int8)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns whether the position table of a generation still has the rows that the snapshot should see.
 */
begin
    if i_generation % 2 = 0 then
        return exists (select 1 from pgq.position_0 where pos_key = 0 and pos_nr = i_generation);
    else
        return exists (select 1 from pgq.position_1 where pos_key = 0 and pos_nr = i_generation);
    end if;
end;
$$;
