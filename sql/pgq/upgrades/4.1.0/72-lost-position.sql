-- A position that was found lost stays so until an operator decides.
create table if not exists pgq.lost_position (
    lp_queue text not null,
    lp_consumer text not null,
    lp_source text not null,
    lp_reason text not null,
    lp_noted timestamptz not null default now(),
    constraint lost_position_pkey primary key (lp_queue, lp_consumer)
);

comment on table pgq.lost_position
is 'positions kept in this database that do not fit their queue, until an operator decides';
comment on column pgq.lost_position.lp_queue is 'name of the queue';
comment on column pgq.lost_position.lp_consumer is 'name the consumer is registered with there';
comment on column pgq.lost_position.lp_source is 'where the queue is: the provider node';
comment on column pgq.lost_position.lp_reason is 'what did not fit';
comment on column pgq.lost_position.lp_noted is 'when that was found';
