create or replace function londiste.global_update_seq(
    i_queue_name text,
    i_seq_name text,
    i_value int8,
    i_how text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores a published value of a sequence.  A local sequence advances to it, and never moves back.
 *
 * i_how -- kind of the value, from the root: back (the sequence descends), cycle (it cycles), exact
 *     (the root has stopped; this is the last value), unused (the root has stopped; this is the
 *     next value, not used yet).  Any other value: the sequence ascends, or its direction is
 *     unknown.  Then the direction of the local sequence applies, if it exists.
 *
 * ret_code -- 200 stored; 402 on the root, which is the source of the values; 404 this database is
 *     no node of the queue.
 */
declare
    v_seq text := londiste.make_fqname(i_seq_name);
    v_type text;
    v_known londiste.seq_info;
    v_increment int8;
    v_cycle boolean;
    v_unused boolean := coalesce(i_how = 'unused', false);
    v_exact boolean := v_unused or coalesce(i_how = 'exact', false);
begin
    select n.node_type into v_type
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Set not found: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_type = 'root' then
        select 402, 'Must not run on root node' into ret_code, ret_note;
        return;
    end if;

    select s.seqincrement, s.seqcycle into v_increment, v_cycle
    from pg_sequence s
    where s.seqrelid = londiste.find_seq_oid(v_seq);
    select * into v_known
    from londiste.seq_info s
    where s.queue_name = i_queue_name and s.seq_name = v_seq
    for update;

    insert into londiste.seq_info as s (queue_name, seq_name, last_value, exact, unused)
    values (i_queue_name, v_seq, i_value, v_exact, v_unused)
    on conflict (queue_name, seq_name) do update
        set last_value = case
                when v_exact or i_how = 'cycle' or coalesce(v_cycle, false)
                    then excluded.last_value
                when i_how = 'back' or v_increment < 0
                    then least(s.last_value, excluded.last_value)
                else greatest(s.last_value, excluded.last_value) end,
            exact = v_exact,
            unused = v_unused;
    if v_known.local then
        perform londiste._seq_move(v_seq, i_value, v_known.last_value,
            v_exact, v_unused);
    end if;
    select 200, 'Sequence updated' into ret_code, ret_note;
end;
$$;

create or replace function londiste.global_update_seq(
    i_queue_name text,
    i_seq_name text,
    i_value int8,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /* Stores a published value of a sequence whose kind the root does not report. */
    select u.ret_code, u.ret_note
    from londiste.global_update_seq(i_queue_name, i_seq_name, i_value, null::text) u;
$$;
