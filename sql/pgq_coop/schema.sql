-- Cooperative consumers: several workers share the position of one consumer.
create schema if not exists pgq_coop;
comment on schema pgq_coop is 'cooperative consumers: workers that share one position';
