"""Every compiler option of the CPU kernels, in one place.

``nogil``: a kernel that held the GIL would silence its worker's heartbeat. ``cache``: workers start in
milliseconds. No ``parallel``: one chunk per Dask thread is the parallelism.
"""

from functools import partial

import numba

#: Exact IEEE arithmetic in the order that the source says: for samplers and whatever must be the same to the bit.
kernel = partial(numba.njit, nogil=True, cache=True, error_model="numpy")

#: Sums may be reordered and fused, so that reductions use vector registers; still deterministic on one machine type.
vector_kernel = partial(kernel, fastmath={"reassoc", "contract", "nsz", "arcp"})
