"""Entry points of earlier versions: programs such as ``pgqadm`` and ``queue_mover``.

Each is thin: it translates its settings file and runs a present command.
"""
