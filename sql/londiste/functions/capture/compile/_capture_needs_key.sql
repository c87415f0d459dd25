create or replace function londiste._capture_needs_key(i_op text, i_args text[])
returns void
language plpgsql
as $$
/* Refuses an UPDATE or DELETE whose row no other node could find. */
begin
    raise exception using
        errcode = 'LD100',
        message = 'Update/Delete on table without pkey',
        detail = format('%s on table %s, which is in queue %s', i_op, i_args[2], i_args[1]),
        hint = 'add a primary key, or add the table with pkey=column,column or whole_row';
end;
$$;
