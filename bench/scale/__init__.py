"""How the cost of operations grows with tables, columns, backlog, nodes and so on.

    python -m bench.scale --axis tables --steps 10,100,1000
    python -m bench.scale --axis chain          # with the sizes of the axis
    python -m bench.scale --help                # names the axes

Each step starts two servers of its own.  A line is an operation at one size: wall time, processor
time of the program and of both servers, peak memory of the program, and the WAL of both servers.
Then follows an exponent for each operation (``bench.scale.growth``): 1 is linear, 2 quadratic, 0 no
growth.  The exponent of the processor time is the one to trust on a machine that is in use.

A new axis is a generator function with ``@axis``, in a module that ``axes`` imports.
"""
