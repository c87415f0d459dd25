create or replace function pgq_coop._drop_delivery(i_batch_id int8)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes what receive() has stored about a batch, if anything.
 */
    with gone as (
        delete from pgq_coop.delivery where batch_id = i_batch_id returning content_id
    )
    delete from pgq_coop.delivery_event e using gone where e.content_id = gone.content_id;
$$;
