create or replace function pgq.forget_lost_position(i_queue_name text, i_consumer_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * The position of a consumer counts again: by decision of an operator.  Returns whether it was
 * noted as lost.
 */
begin
    delete from pgq.lost_position
    where lp_queue = i_queue_name and lp_consumer = i_consumer_name;
    return found;
end;
$$;
