create or replace function londiste.global_update_seq(
    i_queue_name text,
    i_seq_name text,
    i_value int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores a published value; where the sequence is local it is raised, never lowered.
 *
 * 200 stored; 402 on the root, which is the source of the values; 404 no node here.
 */
declare
    v_seq text := londiste.make_fqname(i_seq_name);
    v_type text;
    v_local boolean;
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

    insert into londiste.seq_info as s (queue_name, seq_name, last_value)
    values (i_queue_name, v_seq, i_value)
    on conflict (queue_name, seq_name) do update
        set last_value = greatest(s.last_value, excluded.last_value)
    returning s.local into v_local;
    if v_local then
        perform pgq.seq_setval(v_seq, i_value);
    end if;
    select 200, 'Sequence updated' into ret_code, ret_note;
end;
$$;
