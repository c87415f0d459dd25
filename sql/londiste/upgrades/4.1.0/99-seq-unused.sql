-- Whether a sequence was used travels with its exact value.
alter table londiste.seq_info add column if not exists unused boolean not null default false;

comment on column londiste.seq_info.unused is
    'with exact: the root has not returned this value yet, it is the next one';

-- Functions of this name have other arguments or another result.
drop function if exists londiste.sequence_values(text);
drop function if exists londiste._seq_move(text, int8, int8, boolean);
