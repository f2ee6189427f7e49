"""What kernels raise beside ValueError. It stands apart so that catching it loads no CUDA library."""


class DeviceError(Exception):
    """What went wrong on a CUDA device; the sentence names the kernel."""
