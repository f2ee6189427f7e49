"""Errors that kernels raise, besides ValueError. This file imports no CUDA library, so the CPU code can catch them."""


class DeviceError(Exception):
    """An operation on a CUDA device failed; the message names the kernel."""
