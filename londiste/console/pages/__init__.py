"""Pages of the console: one module per page, from a snapshot to the values that it shows.

The values of a page are its JSON, too: the names of the fields are the headings of the columns.
"""
