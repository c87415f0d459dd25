create or replace function londiste.settle_apply_errors(
    i_queue_name text, i_consumer_name text, i_tick_id int8, i_skipped int8[], i_rows int4[]
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves failed events up to a tick to the history.  Returns their number.
 *
 * The consumer calls it in the transaction that moves its position after this tick.
 *
 * i_skipped, i_rows -- the events and rows that the batch has skipped.  Any other decision came too
 *     late: the event was applied.
 */
declare
    v_count int4;
begin
    update londiste.apply_error e
    set state = case when exists (
                select from unnest(i_skipped, i_rows) as s (event_id, row_nr)
                where s.event_id = e.event_id and s.row_nr = e.row_nr)
            then 'skipped' else 'passed' end,
        ended_at = now()
    where e.queue_name = i_queue_name
        and e.consumer_name = i_consumer_name
        and e.tick_id <= i_tick_id
        and e.state in ('halted', 'skip');
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
