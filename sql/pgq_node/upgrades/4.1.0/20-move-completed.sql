-- The position and the tick by which its queue is known again move in one call.
drop function if exists pgq_node.move_consumer_completed(text, text, int8, int8);
