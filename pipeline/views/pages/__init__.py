"""HTML reports of one run or two."""
