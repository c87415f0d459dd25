create or replace function pgq.note_lost_position(
    i_queue_name text,
    i_consumer_name text,
    i_source text,
    i_reason text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Marks the position of a consumer as lost: the position does not fit the queue at i_source.
 *
 * The mark stays until forget_lost_position(), forget_known_sources() or a change of the source.
 * Rows may be missing even though later batches fit.  Returns false when the mark existed before.
 */
begin
    delete from pgq.lost_position
    where lp_queue = i_queue_name and lp_consumer = i_consumer_name and lp_source <> i_source;
    insert into pgq.lost_position (lp_queue, lp_consumer, lp_source, lp_reason)
    values (i_queue_name, i_consumer_name, i_source, i_reason)
    on conflict on constraint lost_position_pkey do nothing;
    return found;
end;
$$;
