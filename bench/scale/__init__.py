"""How the cost of operations grows with the number of tables, consumers and queues.

    python -m bench.scale --axis tables --steps 10,100,1000
    python -m bench.scale --axis consumers --steps 1,10,100,1000
    python -m bench.scale --axis queues --steps 1,10,100,500

Each step starts two servers of its own.  A line is an operation at one size: wall time, processor
time of the program and of both servers, peak memory of the program, and the WAL of both servers.
Then follows an exponent for each operation (``bench.scale.growth``): 1 is linear, 2 quadratic, 0 no
growth.  The exponent of the processor time is the one to trust on a machine that is in use.

A new axis is a generator function with ``@axis``, in a module that ``axes`` imports.
"""
