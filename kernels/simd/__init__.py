"""Vector instructions for kernels: eight lanes, tiles of sums, prefetches, and aligned arrays."""
