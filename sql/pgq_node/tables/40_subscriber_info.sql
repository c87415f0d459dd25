create table pgq_node.subscriber_info (
    queue_name      text not null,
    subscriber_node text not null,
    worker_name     text,
    watermark_name  text,
    since_event     int8,

    constraint subscriber_info_pkey primary key (queue_name, subscriber_node),
    constraint subscriber_info_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name),
    constraint subscriber_info_node_fkey foreign key (queue_name, subscriber_node)
        references pgq_node.node_location (queue_name, node_name),
    constraint subscriber_info_worker_fkey foreign key (worker_name)
        references pgq.consumer (co_name),
    constraint subscriber_info_watermark_fkey foreign key (watermark_name)
        references pgq.consumer (co_name)
);

comment on table pgq_node.subscriber_info is 'nodes that read from this one';
comment on column pgq_node.subscriber_info.queue_name is 'the queue';
comment on column pgq_node.subscriber_info.subscriber_node is 'name of the reading node';
comment on column pgq_node.subscriber_info.worker_name is 'its consumer on our queue';
comment on column pgq_node.subscriber_info.watermark_name is
    'consumer that never reads: it pins what the subscriber and everything below it still need';
comment on column pgq_node.subscriber_info.since_event is
    'newest event of the root when the node was made: messages before it are about an earlier node of that name';
