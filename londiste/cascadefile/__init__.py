"""File of a whole cascade compared with its databases: plan, apply and export.

state.py     reads what the databases have               the only reader
wanted.py    which tables each node should have, with which rules        pure
decide.py    file and state -> ordered actions                           pure
action.py    an action in words: locks, bytes, time, losses              pure
perform.py   carries out one action, by the functions of the commands
export.py    state -> text of a file                                     pure
"""
