-- Our own capture can write many rows of one statement into one event; not every reader of a queue
-- knows how to read that.
alter table pgq.queue
add column if not exists queue_packed_events boolean not null default true;

comment on column pgq.queue.queue_packed_events
is 'one event may carry many rows; false for readers that know jsontriga only';
