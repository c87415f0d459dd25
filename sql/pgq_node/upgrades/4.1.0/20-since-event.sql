-- Messages that a node was dropped may arrive after it was made again.
alter table pgq_node.subscriber_info add column if not exists since_event int8;

comment on column pgq_node.subscriber_info.since_event is
    'newest event of the root when the node was made: messages before it are about an earlier node of that name';
