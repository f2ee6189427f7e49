"""FastRP: vectors of the nodes of a graph by random projection."""
