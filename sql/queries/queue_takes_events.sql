-- Whether there is a queue, and whether events may be written into it here.  %(queue)s -- its name.
select
    exists (select from pgq.queue as q where q.queue_name = %(queue)s),
    not exists (
        select from pgq_node.node_info as n
        where n.queue_name = %(queue)s and n.node_type <> 'root'
    );
