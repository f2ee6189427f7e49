"""A simulated device with few threads for a Dask worker. Importing this file does not load CUDA."""


def simulate():
    """Set up the worker that calls this. Its process must have NUMBA_ENABLE_CUDASIM=1."""
    from corpusmill.kernels.cuda.lda import document_counts, word_counts
    from corpusmill.kernels.cuda.lda import esca as lda
    from helpers import cuda_simulator  # noqa: F401 installs itself

    lda.WARPS = lda.BLOCKS = document_counts.WARPS = 1
    for module in (document_counts, word_counts):
        module.THREADS, module.BLOCKS = 32, 1
