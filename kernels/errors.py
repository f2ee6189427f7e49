"""Errors that kernels raise, in addition to ValueError. Importing this file loads no CUDA library."""


class DeviceError(Exception):
    """An operation on a CUDA device failed; the message names the kernel."""
