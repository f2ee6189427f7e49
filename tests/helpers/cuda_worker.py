"""A simulated device with few threads for a Dask worker. Importing this file does not load CUDA."""


def simulate():
    """Set up the worker that calls this. Its process must have NUMBA_ENABLE_CUDASIM=1."""
    from corpusmill.kernels.cuda.lda import counts as lda_counts
    from corpusmill.kernels.cuda.lda import esca as lda
    from helpers import cuda_simulator  # noqa: F401 installs itself

    lda.WARPS = lda.BLOCKS = 1
    lda_counts.THREADS, lda_counts.BLOCKS = 32, 1
