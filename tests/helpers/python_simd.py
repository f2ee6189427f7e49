"""The functions of ``kernels.simd`` and of Word2Vec's vector code in NumPy, for runs without numba's compiler.

With NUMBA_DISABLE_JIT=1, kernels run as Python, so that coverage sees their lines. Numba's intrinsics generate machine
code and cannot run as Python. ``install`` replaces each by the function of the same name below. Vectors are NumPy
arrays. A tile is an array of vectors, (4 n, width); strips and rows of a tile are views of it.
"""

import ctypes

import numpy as np
from corpusmill.kernels.simd import tiles
from corpusmill.kernels.simd.lanes import COPIES
from numba.core.extending import _Intrinsic

LANES = 8
ROWS = 4


def install():
    """Let all intrinsics run as Python."""
    functions = globals()
    _Intrinsic.__call__ = lambda intrinsic, *arguments: functions[intrinsic._name](*arguments)


def _flat(array):
    return array.reshape(-1)


def _as_rows(tile):
    return tile.reshape(ROWS, -1)


def _as_strips(tile):
    return tile.reshape(-1, ROWS * tile.shape[1])


def _plus(tile, products):
    return (tile.reshape(products.shape) + products).reshape(tile.shape).astype(tile.dtype)


# --- instructions ---


def prefetch(array, index):
    """Do nothing: only the speed depends on it."""


def prefetch_at(address, index, like):
    """Do nothing: only the speed depends on it."""


def read_at(address, index, like):
    """Return element ``index`` of the array at ``address``, whose elements have the type of those of ``like``."""
    place = int(address) + int(index) * like.itemsize
    return np.frombuffer((ctypes.c_char * like.itemsize).from_address(place), like.dtype)[0]


def trailing_zeros(number):
    """Return the number of zero bits at the low end of a 64-bit integer."""
    number = int(number)
    if number == 0:
        return 64
    return (number & -number).bit_length() - 1


# --- rows in registers: kernels.simd.rows ---


def _panel(array, at, shape):
    return _flat(array)[at : at + shape.columns]


def load_row(array, at, shape):
    """Return a panel of a row."""
    return _panel(array, at, shape).copy()


def store_row(row, array, at, shape):
    """Write a panel of a row."""
    _panel(array, at, shape)[:] = row


def add_multiple(row, a, array, at, shape):
    """Return the row plus a multiple of a panel."""
    return row + row.dtype.type(a) * _panel(array, at, shape)


def add_multiple_to(array, at, shape, a, row):
    """Add a multiple of the row to a panel."""
    _panel(array, at, shape)[:] += row.dtype.type(a) * row


def prefetch_row(array, at, shape):
    """Do nothing: only the speed depends on it."""


# --- choices among the entries of a row: kernels.simd.choices ---


def prefetch_entries(array, at, shape):
    """Do nothing: only the speed depends on it."""


def spread(x, shape):
    """Return a row of copies of ``x``."""
    return np.full(shape.columns, x, np.asarray(x).dtype)


def one_hot(index, shape):
    """Return a mask with one bit."""
    return np.arange(shape.columns) == index


def where(mask, a, b):
    """Return a where the mask has bits, and b elsewhere."""
    return np.where(mask, a, b)


def to_floats(row):
    """Return float32."""
    return row.astype(np.float32)


def to_integers(row):
    """Return int32."""
    return row.astype(np.int32)


def choose(weights, u):
    """Return the mask of one entry: first the lane that holds u times the sum, then the entry in the lane."""
    sums = np.cumsum(weights.reshape(-1, LANES), axis=0, dtype=np.float32)
    ends = np.cumsum(sums[-1])
    x = np.float32(u) * ends[-1]
    lane = min(np.count_nonzero(ends <= x), LANES - 1)
    rest = x - (ends[lane - 1] if lane else 0)
    row = min(np.count_nonzero(sums[:, lane] <= rest), len(sums) - 1)
    return np.arange(weights.size) == row * LANES + lane


def index_of(mask):
    """Return the index of the only bit of a mask."""
    return np.uint64(mask.argmax())


# --- eight numbers in a register: kernels.simd.lanes ---


def load(array, index):
    """Return eight numbers."""
    return _flat(array)[index : index + LANES].copy()


def store(array, index, lanes):
    """Write eight numbers."""
    _flat(array)[index : index + LANES] = lanes


def gather(array, index):
    """Return the numbers at eight indices."""
    return _flat(array)[index.astype(np.int64)]


def gather_by_high_half(array, packed, index):
    """Return the numbers at the indices that are the upper halves of eight numbers."""
    return gather(array, high_half(load(packed, index)))


def fill(array, index, x):
    """Write copies of a number."""
    _flat(array)[index : index + COPIES] = x


def splat(x):
    """Return eight times ``x``."""
    return np.full(LANES, x, np.asarray(x).dtype)


def high_half(x):
    """Return the upper 16 bits of each number."""
    return x >> np.uint32(16)


def low_half(x):
    """Return the lower 16 bits of each number."""
    return x & np.uint32(0xFFFF)


def to_float(x):
    """Return float32."""
    return x.astype(np.float32)


def to_double(x):
    """Return float64."""
    return x.astype(np.float64)


def add(a, b):
    """Return a + b."""
    return a + b


def subtract(a, b):
    """Return a - b."""
    return a - b


def multiply(a, b):
    """Return a * b."""
    return a * b


def where_equal(a, b, x, y):
    """Return x where a equals b, and y elsewhere."""
    return np.where(a == b, x, y)


def where_bits(mask, x, y):
    """Return x in the lanes where the mask has bits, and y elsewhere."""
    return np.where(mask != 0, x, y)


def add_one_where_at_most(counts, lanes, x):
    """Return counts, plus 1 where lanes <= x."""
    return counts + (lanes <= x).astype(counts.dtype)


def prefix_sums(x):
    """Return running sums, in the order of the vector code: three rounds of shifted additions."""
    total = x
    for step in (1, 2, 4):
        total = total + np.r_[np.zeros(step, x.dtype), total[:-step]]
    return total


def shift_up(lanes):
    """Return 0 and the first seven numbers."""
    return np.r_[np.zeros(1, lanes.dtype), lanes[:-1]]


def count_at_most(lanes, x):
    """Return how many numbers are at most ``x``."""
    return int(np.count_nonzero(lanes <= x))


def first_equal(a, b):
    """Return the first lane in which the vectors are equal, LANES if there is none."""
    return int(np.argmax(np.append(a == b, True)))


def pick(lanes, lane):
    """Return one number."""
    return lanes[int(lane)]


# --- tiles of small matrix products: kernels.simd.tiles ---


def zeros(array, n):
    """Return a tile of zeros."""
    return np.zeros((ROWS * n, tiles.lanes(array.dtype)), array.dtype)


def multiply_add(tile, a, i, b, j):
    """Return the tile plus the outer product of four numbers of ``a`` and the numbers from b[j]."""
    width = _as_rows(tile).shape[1]
    return _plus(tile, np.outer(_flat(a)[i : i + ROWS], _flat(b)[j : j + width]))


def add_to(tile, out, at, stride):
    """Add the rows of the tile to ``out``."""
    for row, values in enumerate(_as_rows(tile)):
        _flat(out)[at + row * stride : at + row * stride + len(values)] += values


def descend(tile, x, p, at, s, i, keep, step, k, epsilon, gradients):
    """Set four rows of x one after another to max(ε, keep·x + step·(p − s·x)); add up the projected gradients."""
    sums = _as_rows(tile).copy()
    width = sums.shape[1]
    for row in range(ROWS):
        here = slice(at + row * width, at + (row + 1) * width)
        old = _flat(x)[here].copy()
        slope = _flat(p)[here] - sums[row]
        gradients += np.where(old == 0, np.maximum(slope, 0), np.abs(slope))
        new = np.maximum(slope * step[k + row] + old * keep[k + row], epsilon).astype(old.dtype)
        _flat(x)[here] = new
        for later in range(row + 1, ROWS):
            sums[later] += _flat(s)[i + row * ROWS + later] * (new - old)


def transpose(source, i, source_stride, target, j, target_stride):
    """Write the transpose of a square block."""
    width = tiles.lanes(source.dtype)
    block = np.array([_flat(source)[i + r * source_stride :][:width] for r in range(width)])
    for row, values in enumerate(block.T):
        _flat(target)[j + row * target_stride : j + row * target_stride + width] = values


# --- strips of a row: kernels.word2vec.strips ---


def _strip_size():
    return ROWS * tiles.lanes(np.float32)


def _strip(array, i):
    return _flat(array)[i : i + _strip_size()]


def load_strip(array, i):
    """Return a strip as a tile of one."""
    return _strip(array, i).reshape(ROWS, -1).copy()


def store_strip(strip, array, i):
    """Write a strip."""
    _strip(array, i)[:] = _flat(strip)


def add_products(tile, a, i, b, j, k):
    """Return a tile of two strips, plus products of one strip with two others."""
    return _plus(tile, np.stack([_strip(a, i) * _strip(b, j), _strip(a, i) * _strip(b, k)]))


def sum_strips(tile):
    """Return the sums of two strips."""
    first, second = _as_strips(tile)
    return np.float32(first.sum()), np.float32(second.sum())


def pull_strip(total, held, g, array, i):
    """Return ``total`` + g * x for the strip x at array[i], which becomes x + g * ``held``."""
    old = _strip(array, i).copy()
    _strip(array, i)[:] = old + np.float32(g) * _flat(held)
    return _plus(total, (np.float32(g) * old).reshape(total.shape))


def multiply_add_strips(tile, a, i, stride, b, j):
    """Return a tile of strips plus the outer product of every ``stride``-th number of ``a`` and the strip at b[j]."""
    number = len(_as_strips(tile))
    factors = _flat(a)[[i + s * stride for s in range(number)]]
    return _plus(tile, np.outer(factors, _strip(b, j)))


def prefetch_strip(array, i):
    """Do nothing: only the speed depends on it."""


def add_products_of_four(tile, a, i, b, rows, r, columns, d):
    """Return the tile plus the products of one strip with strips of four rows of b."""
    return add_products_of_pairs(tile, _strip(a, i)[None, :], np.zeros(r + ROWS, int), b[:, d:], rows, r, columns, 0)


def add_products_of_pairs(tile, a, rows, b, others, r, columns, d):
    """Return the tile plus the products of the strips of four pairs of rows."""
    here, strip = slice(r, r + ROWS), slice(d, d + _strip_size())
    products = a[rows[here], strip] * b[others[here], strip]
    per_row = len(tile) // ROWS
    return _plus(tile, products.reshape(ROWS, -1, per_row, tile.shape[1]).sum(axis=1))


def store_sums_of_rows(tile, out, at):
    """Write the sums of the four rows of a tile to ``out``."""
    _flat(out)[at : at + ROWS] = _as_rows(tile).sum(axis=1)


def add_products_of_tile(tile, a, rows, r, b, others, o, columns, d):
    """Return the tile plus the products of a vector of several rows of a with that of four rows of b."""
    n_rows, vector = len(tile) // ROWS, slice(d, d + tile.shape[1])
    left, right = a[rows[r : r + n_rows], vector], b[others[o : o + ROWS], vector]
    return _plus(tile, left[:, None, :] * right[None, :, :])


def store_sums_of_tile(tile, out, at, stride):
    """Write the sums of the vectors of a tile to ``out``, four per row."""
    for row, sums in enumerate(tile.sum(axis=1).reshape(-1, ROWS)):
        _flat(out)[at + row * stride : at + row * stride + ROWS] = sums


def add_strips_to_rows(tile, out, rows, r, columns, d):
    """Add the strips of a tile to listed rows of ``out``."""
    for s, strip in enumerate(_as_strips(tile)):
        out[rows[r + s], d : d + len(strip)] += strip


def repulsions(array, i, alpha):
    """Replace one vector of products x by -alpha * sigmoid(x)."""
    here = slice(i, i + tiles.lanes(np.float32))
    x = np.clip(_flat(array)[here], -40, 40)
    _flat(array)[here] = -np.float32(alpha) / (1 + np.exp(-x))
