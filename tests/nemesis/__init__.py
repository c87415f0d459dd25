"""The fault machine: random worlds, work, operations and faults, and validators of every promise.

``plan`` decides what happens in a life, from its number alone.  ``runner`` lets it happen on real
servers with real processes.  ``validators`` check what a reader could see.  Every kind of world,
table, work, operation and fault is an entry of a registry: one file for each.
"""
