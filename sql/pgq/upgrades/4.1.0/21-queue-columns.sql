-- A reader between two ticks has to know whether events were removed; keys of producers are
-- remembered for some time.
alter table pgq.queue add column if not exists queue_history_txid int8;
alter table pgq.queue
add column if not exists queue_key_retention interval not null default '1 day';

comment on column pgq.queue.queue_history_txid
is 'events of transactions from this one on are all there still; null when none was removed';
comment on column pgq.queue.queue_key_retention
is 'shortest time for which keys of insert_event_once() are remembered';
