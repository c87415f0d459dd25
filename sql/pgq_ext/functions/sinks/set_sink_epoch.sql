create or replace function pgq_ext.set_sink_epoch(
    a_sink text, a_query text, a_epoch int8, a_rows int8
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores that this transaction writes an epoch of a sink, which lock_sink() has locked.
 *
 * a_query -- id of the query to which the epoch belongs.
 * a_rows -- number of rows of the epoch.
 */
begin
    perform pgq_ext._require_values(a_sink, a_query, a_epoch::text, a_rows::text);
    update pgq_ext.sink
    set query_id = a_query, epoch = a_epoch, row_count = a_rows, done_at = now()
    where sink_id = a_sink;
    if not found then
        raise exception using
            errcode = 'LD005',
            message = format('no such sink: %s', a_sink),
            hint = 'lock it first, in the same transaction: '
                || format('select * from pgq_ext.lock_sink(%L, %L)', a_sink, 'queue');
    end if;
end;
$$;
