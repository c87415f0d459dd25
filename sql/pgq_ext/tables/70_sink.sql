-- External writers in epochs, streaming queries or jobs, with the last written epoch.
create table pgq_ext.sink (
    sink_id text not null,
    query_id text,
    epoch int8,
    row_count int8,
    done_at timestamptz not null default now(),
    target text not null,
    constraint sink_pkey primary key (sink_id)
) with (fillfactor = 50);

comment on table pgq_ext.sink is 'queries and jobs that write here, and their last epoch';
comment on column pgq_ext.sink.sink_id is 'name of the sink';
comment on column pgq_ext.sink.query_id is 'the query, known by its checkpoint; null: none wrote yet';
comment on column pgq_ext.sink.epoch is 'number of the last epoch that is in';
comment on column pgq_ext.sink.row_count is 'number of rows of that epoch';
comment on column pgq_ext.sink.done_at is 'when it was written';
comment on column pgq_ext.sink.target is 'where it writes: a queue, tables';
