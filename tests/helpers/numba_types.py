"""Loads Numba's table of types, which takes a third of a second in each process that calls a kernel."""

from numba.core.registry import cpu_target

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
