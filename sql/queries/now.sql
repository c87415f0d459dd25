-- The time of the server.
select now();
