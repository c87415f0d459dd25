create or replace function londiste._seq_move(
    i_seq_name text,
    i_value int8,
    i_known int8,
    i_exact boolean,
    i_unused boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves a sequence of this node to a published value, forward in its own direction, never back.
 *
 * Afterwards the value counts as handed out.  With i_unused it is the next one, because the root has
 * not handed it out.  A value outside of the local sequence moves the sequence to its end, with a
 * warning: nextval() fails then, it does not repeat.
 *
 * Two kinds of sequences move back: one that cycles, and one with an exact value (i_exact) where no
 * session has taken a value on this node since i_known, the last published value.
 */
declare
    v_oid oid := londiste.find_seq_oid(i_seq_name);
    v_seq record;
    v_now record;
    v_value int8;
    v_forward boolean;
begin
    if v_oid is null then
        return;
    end if;
    select s.seqincrement as increment, s.seqmin as low, s.seqmax as high, s.seqcycle as cycle
        into v_seq
    from pg_sequence s
    where s.seqrelid = v_oid;
    v_now := londiste._seq_state(i_seq_name);
    v_value := least(greatest(i_value, v_seq.low), v_seq.high);
    if v_value <> i_value then
        raise warning 'sequence % goes from % to % here, % was published for it', i_seq_name,
            v_seq.low, v_seq.high, i_value;
    end if;
    v_forward := case when v_seq.increment > 0 then v_value > v_now.last_value
                      else v_value < v_now.last_value end;
    if v_forward
        or v_value = v_now.last_value and v_now.unused and not i_unused
        or v_seq.cycle
        or i_exact and not v_now.unused and v_now.last_value = i_known
    then
        perform londiste._require_seq_right(v_oid, 'update');
        perform setval(v_oid::regclass, v_value, not i_unused);
    end if;
end;
$$;
