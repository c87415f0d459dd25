-- It takes arrays now.
drop function if exists pgq._put_back(int8, int8, boolean, timestamptz, int4, text);
