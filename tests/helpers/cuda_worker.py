"""Makes a worker's device a simulated one with few threads; importing it loads no CUDA."""


def simulate():
    """Run on a worker whose process has NUMBA_ENABLE_CUDASIM=1."""
    from corpusmill.kernels.cuda.lda import counts as lda_counts
    from corpusmill.kernels.cuda.lda import esca as lda
    from helpers import cuda_simulator  # noqa: F401 installs itself

    lda.WARPS = lda.BLOCKS = 1
    lda_counts.THREADS, lda_counts.BLOCKS = 32, 1
