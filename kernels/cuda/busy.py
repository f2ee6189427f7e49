"""How large chunks must be to keep a CUDA device busy. The process that plans reads this, so it loads no CUDA."""

#: Tokens of a chunk for whose sweep a device needs about as long as the host for its launches, by module of kernels.
#: Smaller chunks leave the device idle most of the time. The size makes no difference to the other modules.
BUSY_TOKENS = {
    "lda.esca": 1 << 22,
    "lda.collapsed": 1 << 22,
    "nmf.hals": 1 << 19,
    "random_indexing.accumulate": 1 << 19,
}
