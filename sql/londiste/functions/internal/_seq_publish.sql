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
 * Sends a value of one sequence of the root to all nodes when it is due.  Returns true if it was.
 *
 * i_first -- true: no value was published yet.
 *
 * The caller has locked the row of seq_info.  A closed root publishes nothing.
 */
declare
    v_seq pg_sequence;
    v_value int8 := londiste._seq_due(i_queue_name, i_seq_name, i_buffer, i_first);
begin
    if v_value is null or not (i_first or pgq_node._root_takes_events(i_queue_name)) then
        return false;
    end if;
    select * into v_seq from pg_sequence s where s.seqrelid = londiste.find_seq_oid(i_seq_name);
    update londiste.seq_info
    set last_value = v_value,
        exact = false,
        unused = false
    where queue_name = i_queue_name and seq_name = i_seq_name;
    perform pgq.insert_event(i_queue_name, 'londiste.update-seq', v_value::text, i_seq_name,
        case when v_seq.seqcycle then 'cycle' when v_seq.seqincrement < 0 then 'back' end,
        null::text, null::text);
    return true;
end;
$$;
