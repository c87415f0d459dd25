-- Tables in which tasks stage rows of an epoch, pgq_ext.staged_NUMBER, until the epoch is written.
create table pgq_ext.sink_stage (
    stage_id int8 generated always as identity,
    sink_id text not null,
    attempt uuid not null,
    made_at timestamptz not null default now(),
    constraint sink_stage_pkey primary key (stage_id),
    constraint sink_stage_attempt_key unique (attempt)
);

create index sink_stage_sink_idx on pgq_ext.sink_stage (sink_id);

comment on table pgq_ext.sink_stage is 'tables in which tasks stage rows, pgq_ext.staged_NUMBER';
comment on column pgq_ext.sink_stage.stage_id is 'its number';
comment on column pgq_ext.sink_stage.sink_id is 'name of the sink';
comment on column pgq_ext.sink_stage.attempt is 'the attempt at an epoch, whose tasks share it';
comment on column pgq_ext.sink_stage.made_at is 'when it was made';
