-- 4.0.0a1 could not run maintenance functions of the user, and looked through all retried events.
alter table pgq.queue add column if not exists queue_extra_maint text[];

comment on column pgq.queue.queue_extra_maint
is 'maintenance functions of the user, each called with the queue name';

create index if not exists rq_retry_idx on pgq.retry_queue (ev_retry_after);
