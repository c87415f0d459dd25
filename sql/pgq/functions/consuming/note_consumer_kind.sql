create or replace function pgq.note_consumer_kind(
    i_queue_name text,
    i_consumer_name text,
    i_kind text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores what kind of program a consumer is, for lists of consumers.
 *
 * Returns true when the kind is new or has changed.  The entry is deleted with the registration.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(i_queue_name, i_consumer_name);
begin
    insert into pgq.consumer_kind (ck_queue, ck_consumer, ck_kind)
    values (v_sub.sub_queue, v_sub.sub_consumer, i_kind)
    on conflict on constraint ck_pkey do update
    set ck_kind = excluded.ck_kind
    where consumer_kind.ck_kind <> excluded.ck_kind;
    return found;
end;
$$;
