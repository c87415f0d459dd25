-- The queues, in any schema of the name pgq, however old.
select queue_name from pgq.queue order by queue_name;
