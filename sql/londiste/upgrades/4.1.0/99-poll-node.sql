-- poll_node() returns it, with the state of the node.
drop function if exists londiste.get_table_list_since(text, text);
