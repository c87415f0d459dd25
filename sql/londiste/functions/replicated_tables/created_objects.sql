create or replace function londiste.created_objects(
    i_queue_name text,
    out kind text,
    out identity text,
    out created_by name,
    out identity_now text,
    out owner_now name,
    out same_owner boolean)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the objects that londiste replicate created for a node, and what became of them.
 *
 * kind, identity -- as they were created.  created_by -- the role that recorded them.
 * identity_now -- its present name; NULL: it was dropped.
 * owner_now, same_owner -- its present owner, and whether it is the one that it was created with.
 */
select c.kind, c.identity, c.created_by, o.identity, pg_get_userbyid(w.owner), w.owner = c.owner
from londiste.created_object as c,
    pg_identify_object(c.class_id, c.object_id, 0) as o,
    londiste._owner_of(c.class_id, c.object_id) as w (owner)
where c.queue_name = i_queue_name
order by c.kind, c.identity;
$$;
