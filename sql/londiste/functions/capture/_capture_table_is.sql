create or replace function londiste._capture_table_is(i_queue_id int4, i_nr int4)
returns text
language sql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * The condition on pgq.queue as q that events go into the queue's table of that number now, and
 * are neither refused nor counted.
 */
select format('q.queue_id operator(pg_catalog.=) %s and q.queue_cur_table operator(pg_catalog.=) %s'
        || ' and not q.queue_disable_insert and q.queue_per_tx_limit is null',
    i_queue_id, i_nr);
$$;
