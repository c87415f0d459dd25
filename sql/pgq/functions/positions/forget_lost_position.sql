create or replace function pgq.forget_lost_position(i_queue_name text, i_consumer_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Clears the lost mark of a consumer's position, by decision of an operator.
 *
 * The position is valid again.  Returns whether it was marked as lost.
 */
begin
    delete from pgq.lost_position
    where lp_queue = i_queue_name and lp_consumer = i_consumer_name;
    return found;
end;
$$;
