"""Makes a worker's device a simulated one with few threads; importing it loads no CUDA."""


def simulate():
    """Run on a worker whose process has NUMBA_ENABLE_CUDASIM=1."""
    import cuda_simulator  # noqa: F401 installs itself
    from corpusmill.kernels.cuda import lda, lda_counts

    lda.WARPS = lda.BLOCKS = 1
    lda_counts.THREADS, lda_counts.BLOCKS = 32, 1
