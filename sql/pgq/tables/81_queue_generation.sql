-- Generations of queues: a position is valid in the generation that it was stored in.
create table pgq.queue_generation (
    gen_queue int4 not null,
    gen_id uuid not null default pg_catalog.gen_random_uuid(),
    gen_began timestamptz not null default pg_catalog.now(),
    gen_ended timestamptz,
    gen_last_tick int8,
    constraint queue_generation_pkey primary key (gen_queue, gen_id),
    constraint gen_queue_fkey foreign key (gen_queue) references pgq.queue (queue_id)
        on delete cascade
);

create unique index queue_generation_present on pgq.queue_generation (gen_queue)
where gen_ended is null;

comment on table pgq.queue_generation is 'generations of queues, the present and ended ones';
comment on column pgq.queue_generation.gen_queue is 'queue_id of the queue';
comment on column pgq.queue_generation.gen_id is 'the generation, unique in the world';
comment on column pgq.queue_generation.gen_began
is 'when it began: the queue was created or rebased';
comment on column pgq.queue_generation.gen_ended
is 'when a rebase ended it; null for the present one';
comment on column pgq.queue_generation.gen_last_tick
is 'last tick that the next generation took over: positions up to it are valid there too';
