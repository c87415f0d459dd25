-- Whether a database had replicated tables, and its node of a queue knows none: the numbers of its
-- tables have been used.  %(queue)s the queue.  Without the right to know that: false.
select not exists (select from londiste.table_info as t where t.queue_name = %(queue)s)
    and case when pg_catalog.has_sequence_privilege('londiste.table_info_nr_seq', 'select') then
        pg_catalog.pg_sequence_last_value('londiste.table_info_nr_seq'::pg_catalog.regclass) is not null
    else false end;
