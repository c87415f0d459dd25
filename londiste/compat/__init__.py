"""Programs of earlier versions: the modules ``pgq`` and ``skytools`` of generation 2.

    from londiste.compat import pgq, skytools

``script.py`` has the program around a loop, ``consumers.py`` the consumer classes, ``engine.py``
their place in the framework of ``londiste.consumer``, which delivers the batches.
Read docs/howto/port-a-skytools-program.md first.
"""
