-- The table from which all event tables of a queue inherit.
select queue_data_pfx
from pgq.queue
where queue_name = %(queue)s
