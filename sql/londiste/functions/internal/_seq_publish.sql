create or replace function londiste._seq_publish(
    i_queue_name text,
    i_seq_name text,
    i_buffer int8,
    i_first boolean)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Tells all nodes a value of one sequence of the root, when it is time; true when it was.
 *
 * i_first -- nothing was published yet.  The caller has locked the row of seq_info.  A root that is
 * closed publishes nothing.
 */
declare
    v_seq record;
    v_now record;
    v_value int8;
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
        -- The root was stopped, and nobody has taken a value since.
        return false;
    end if;
    v_value := londiste._seq_ahead(v_now.last_value, case when not i_first then v_seq.told end, i_buffer,
        v_seq.increment, v_seq.low, v_seq.high, v_seq.cycle);
    if v_value is null or not (i_first or pgq_node._root_takes_events(i_queue_name)) then
        return false;
    end if;
    update londiste.seq_info
    set last_value = v_value,
        exact = false,
        unused = false
    where queue_name = i_queue_name and seq_name = i_seq_name;
    perform pgq.insert_event(i_queue_name, 'londiste.update-seq', v_value::text, i_seq_name,
        case when v_seq.cycle then 'cycle' when v_seq.increment < 0 then 'back' end, null::text, null::text);
    return true;
end;
$$;
