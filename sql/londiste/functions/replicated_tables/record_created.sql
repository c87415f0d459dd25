create or replace function londiste.record_created(
    i_queue_name text,
    i_class_ids oid[],
    i_object_ids oid[])
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records objects that the session created for a node.  Returns their number.
 *
 * Objects of roles that the session is no member of are ignored: nobody can record what belongs to
 * others.  The record is deleted with the node.
 *
 * i_class_ids, i_object_ids -- catalogs and oids, in the same order.
 */
declare
    v_caller name := pgq._caller();
    v_count int4;
begin
    perform londiste._require_node(i_queue_name);
    insert into londiste.created_object
        (queue_name, class_id, object_id, kind, identity, owner, created_by)
    select i_queue_name, n.class_id, n.object_id, o.type, o.identity, w.owner, v_caller
    from unnest(i_class_ids, i_object_ids) as n (class_id, object_id),
        pg_identify_object(n.class_id, n.object_id, 0) as o,
        londiste._owner_of(n.class_id, n.object_id) as w (owner)
    where o.identity is not null
        and pg_has_role(v_caller, w.owner, 'USAGE')
    on conflict do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
