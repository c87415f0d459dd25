-- Notes on a closed root which values its sequences have, as root_exact_seqs() does, without events.
-- %(queue)s the queue.
update londiste.seq_info s
set last_value = v.last_value,
    exact = true,
    unused = v.unused
from londiste.sequence_values(%(queue)s) v
where s.queue_name = %(queue)s
    and s.seq_name = v.seq_name
returning s.seq_name
