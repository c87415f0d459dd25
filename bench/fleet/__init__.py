"""Simulation of a fleet: subscribers, lag, disk and daemons of many databases, without servers.

    python -m bench.fleet [FILE] [--databases 200] [--rate 50] [--json]
    python -m bench.fleet --costs
    python -m bench.fleet --check

FILE is TOML: keys are the options with underscores, and a table ``[costs]`` with figures of your
machines instead of those of the documentation.  Options replace keys of the file.  ``--costs``
prints the figures and where they come from.  ``--check`` starts two servers, measures three points
and prints simulated and measured figures side by side.
"""
