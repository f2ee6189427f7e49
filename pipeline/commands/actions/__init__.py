"""What commands do: a configuration or URLs in, plain data out. Nothing here prints or uses click.

With ``--json``, a command prints exactly this data, as one object.
"""

#: Named values, in the order in which they are printed.
Facts = dict[str, object]
