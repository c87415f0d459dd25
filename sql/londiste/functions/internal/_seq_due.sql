create or replace function londiste._seq_due(
    i_queue_name text,
    i_seq_name text,
    i_buffer int8,
    i_first boolean)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the value that one sequence of the root must publish now; NULL when none is due.
 *
 * i_first -- true: no value was published yet.
 *
 * Takes no lock.
 */
declare
    v_seq record;
    v_now record;
begin
    select s.seqincrement as increment, s.seqmin as low, s.seqmax as high, s.seqcycle as cycle,
           i.last_value as told, i.exact, i.unused
        into v_seq
    from londiste.seq_info i, pg_sequence s
    where i.queue_name = i_queue_name
        and i.seq_name = i_seq_name
        and s.seqrelid = londiste.find_seq_oid(i_seq_name);
    v_now := londiste._seq_state(i_seq_name);
    if v_seq.exact and v_now.last_value = v_seq.told and v_now.unused = v_seq.unused
        and not i_first
    then
        -- The root was stopped, and no session has taken a value since.
        return null;
    end if;
    return londiste._seq_ahead(v_now.last_value, case when not i_first then v_seq.told end,
        i_buffer, v_seq.increment, v_seq.low, v_seq.high, v_seq.cycle);
end;
$$;
