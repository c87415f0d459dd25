-- Copies give way to the writers of the provider, unless an operator wants full speed.
alter table londiste.copy_control add column if not exists full_speed bool not null default false;
comment on column londiste.copy_control.full_speed is
    'Copies do not give way to the writers of the provider';
-- These get a parameter and a column.
drop function if exists londiste.copy_throttle(text, int8, int4);
drop function if exists londiste.get_copy_control(text);
