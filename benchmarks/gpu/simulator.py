"""Runs the commands in Numba's CUDA simulator, on a machine without a GPU."""

import warnings


def simulate() -> None:
    """Add to Numba's simulator what it lacks, and use few threads: to see that the commands run, not how fast."""
    from corpusmill.kernels.cuda.lda import document_counts, word_counts
    from corpusmill.kernels.cuda.lda import esca as lda
    from corpusmill.kernels.cuda.nmf import hals as nmf
    from corpusmill.kernels.cuda.nmf import products as nmf_products
    from corpusmill.kernels.cuda.nmf import sums as nmf_sums
    from corpusmill.kernels.cuda.node2vec import walks
    from corpusmill.kernels.cuda.random_indexing import accumulate as random_indexing
    from corpusmill.kernels.cuda.word2vec import cells
    from corpusmill.kernels.cuda.word2vec import skip_gram as word2vec

    from benchmarks.papers import random_indexing_passes as passes
    from benchmarks.papers import vector_lengths
    from benchmarks.papers.kernels import tiled_cuda
    from tests.helpers import cuda_simulator  # noqa: F401 installs itself

    warnings.filterwarnings("ignore", "overflow encountered")  # NumPy warns, a device does not
    lda.WARPS = lda.BLOCKS = document_counts.WARPS = document_counts.BLOCKS = word_counts.BLOCKS = 1
    nmf_products.BLOCKS = nmf_sums.BLOCKS = nmf_sums.PARTS = word2vec.BLOCKS = 1
    with_threads = (
        document_counts,
        word_counts,
        nmf,
        nmf_sums,
        tiled_cuda,
        random_indexing,
        passes,
        walks,
        word2vec,
        cells,
    )
    for module in (*with_threads, vector_lengths):
        module.THREADS = 32
