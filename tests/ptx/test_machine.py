"""The machine computes what the PTX manual says, and finds faults that were planted."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import cuda

from tests.ptx import compiler, device
from tests.ptx.program import OPCODES, Program, Range, Schedule, has_compiler

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_compiler(), reason="needs g++")]

# --- operations of one lane, against Python's integers and NumPy's floats ---

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 p0)\n{\n"
INTEGERS = [f"{sign}{bits}" for sign in "su" for bits in (16, 32, 64)]
FLOATS = ["f32", "f64"]


def width(kind):
    return 8 if kind == "pred" else int(kind[1:])


def computed(opcode, kinds, target, numbers):
    """Return the bits of ``opcode`` for 32-bit or 64-bit sources, one set of numbers per lane."""
    body = [" mov.u32 %r1, %tid.x;", " ld.param.u64 %rd1, [p0];", " mul.wide.u32 %rd2, %r1, 64;"]
    body.append(" add.u64 %rd2, %rd2, %rd1;")
    for i, kind in enumerate(kinds):
        if kind == "pred":
            body += [f" ld.global.u32 %r9, [%rd2+{8 * i}];", f" setp.ne.u32 %p{i + 1}, %r9, 0;"]
        else:
            body.append(f" ld.global.b{width(kind)} %x{i + 1}, [%rd2+{8 * i}];")
    names = [f"%p{i + 1}" if kind == "pred" else f"%x{i + 1}" for i, kind in enumerate(kinds)]
    result = "%p9" if target == "pred" else "%y1"
    body.append(f" {opcode} {result}, {', '.join(names)};")
    if target == "pred":
        body.append(" selp.u32 %y1, 1, 0, %p9;")
    body += [f" st.global.b{max(16, 32 if target == 'pred' else width(target))} [%rd2+56], %y1;", " ret;", "}"]
    text = HEAD + "\n".join(body).replace(
        "mad.wide.u32 %rd2, %r1, 64, %rd1", "mul.wide.u32 %rd2, %r1, 64;\n add.u64 %rd2, %rd2, %rd1"
    )
    memory = np.zeros((len(numbers), 8), np.uint64)
    for row, values in zip(memory, numbers, strict=True):
        for i, (kind, value) in enumerate(zip(kinds, values, strict=True)):
            row[i] = to_bits(value, kind)
    address = memory.ctypes.data
    found, _ = Program(text).run(1, len(numbers), 0, [address], [Range(address, memory.nbytes, 8)], Schedule())
    assert {one.fault for one in found} <= {"DIVISION_BY_ZERO"}
    return [from_bits(int(bits), target) for bits in memory[:, 7]]


def to_bits(value, kind):
    if kind in FLOATS:
        code, integer = ("f", "I") if kind == "f32" else ("d", "Q")
        return struct.unpack(integer, struct.pack(code, value))[0]
    return int(value) & (2 ** width(kind) - 1)


def from_bits(bits, kind):
    if kind in FLOATS:
        code, integer = ("f", "I") if kind == "f32" else ("d", "Q")
        return struct.unpack(code, struct.pack(integer, bits & (2 ** width(kind) - 1)))[0]
    if kind == "pred":
        return bool(bits & 1)
    return wrapped(bits, kind)


def wrapped(value, kind):
    """Return an integer as one of this type, which wraps around."""
    value &= 2 ** width(kind) - 1
    return value - 2 ** width(kind) if kind[0] == "s" and value >> (width(kind) - 1) else value


def truncated(a, b):
    """Return the quotient, rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shifted(a, n, kind, left):
    n = min(n, width(kind))
    return a << n if left else a >> n


INTEGER_OPERATIONS = {
    "add": lambda a, b, kind: a + b,
    "sub": lambda a, b, kind: a - b,
    "mul.lo": lambda a, b, kind: a * b,
    "mul.hi": lambda a, b, kind: (a * b) >> width(kind),
    "min": lambda a, b, kind: min(a, b),
    "max": lambda a, b, kind: max(a, b),
    "div": lambda a, b, kind: truncated(a, b) if b else -1,
    "rem": lambda a, b, kind: a - b * truncated(a, b) if b else 0,
}
COMPARED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def of(kind):
    """Return numbers of a type, extreme ones among them."""
    if kind == "f32":
        return st.floats(width=32)
    if kind == "f64":
        return st.floats()
    if kind == "pred":
        return st.booleans()
    low, high = limits(kind)
    return st.integers(low, high) | st.sampled_from([low, high, 0, 1])


def limits(kind):
    """Return the smallest and the largest number of an integer type."""
    bits = width(kind)
    return (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def cases(data, *kinds):
    """Draw the numbers of a few lanes."""
    return data.draw(st.lists(st.tuples(*(of(kind) for kind in kinds)), min_size=1, max_size=40))


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", INTEGER_OPERATIONS)
@settings(max_examples=15)
@given(data=st.data())
def test_arithmetic_of_integers(name, kind, data):
    numbers = cases(data, kind, kind)
    expected = [wrapped(INTEGER_OPERATIONS[name](a, b, kind), kind) for a, b in numbers]
    assert computed(f"{name}.{kind}", (kind, kind), kind, numbers) == expected


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
@settings(max_examples=15)
@given(data=st.data())
def test_logic_and_bits(kind, data):
    unsigned = "u" + kind[1:]
    bits = width(kind)
    pairs = cases(data, unsigned, unsigned)
    for name, function in {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}.items():
        assert computed(f"{name}.{kind}", (unsigned,) * 2, unsigned, pairs) == [function(a, b) for a, b in pairs]
    ones = [(a,) for a, _ in pairs]
    assert computed(f"not.{kind}", (unsigned,), unsigned, ones) == [2**bits - 1 - a for (a,) in ones]
    if bits > 16:
        assert computed(f"popc.{kind}", (unsigned,), "u32", ones) == [a.bit_count() for (a,) in ones]
        assert computed(f"clz.{kind}", (unsigned,), "u32", ones) == [bits - a.bit_length() for (a,) in ones]
        reversed_bits = [int(f"{a:0{bits}b}"[::-1], 2) for (a,) in ones]
        assert computed(f"brev.{kind}", (unsigned,), unsigned, ones) == reversed_bits
        highest = [bits - a.bit_length() if a else 2**32 - 1 for (a,) in ones]
        assert computed(f"bfind.shiftamt.{unsigned}", (unsigned,), "u32", ones) == highest
        fields = [(a, b, p % 80, n % 80) for (a, b), (p, n) in zip(pairs, cases_like(data, pairs), strict=True)]
        inserted = []
        for a, b, position, length in fields:
            mask = ((2**length - 1) << position) & (2**bits - 1)
            inserted.append((b & ~mask) | ((a << position) & mask))
        assert computed(f"bfi.{kind}", (unsigned, unsigned, "u32", "u32"), unsigned, fields) == inserted


def cases_like(data, pairs):
    return data.draw(st.lists(st.tuples(of("u32"), of("u32")), min_size=len(pairs), max_size=len(pairs)))


@pytest.mark.parametrize("kind", ["s16", "s32", "s64", "u16", "u32", "u64"])
@settings(max_examples=15)
@given(data=st.data())
def test_shifts_clamp_at_the_width(kind, data):
    numbers = [(a, n % 70) for a, n in cases(data, kind, "u32")]
    for name in ("shl", "shr"):
        typed = f"b{kind[1:]}" if name == "shl" else kind
        expected = [wrapped(shifted(a, n, kind, name == "shl"), kind) for a, n in numbers]
        assert computed(f"{name}.{typed}", (kind, "u32"), kind, numbers) == expected


@settings(max_examples=15)
@given(data=st.data())
def test_products_of_twice_the_width_sums_and_selections(data):
    for kind, wide in {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}.items():
        pairs = cases(data, kind, kind)
        assert computed(f"mul.wide.{kind}", (kind, kind), wide, pairs) == [a * b for a, b in pairs]
    for kind in ("s32", "u64"):
        triples = cases(data, kind, kind, kind)
        expected = [wrapped(a * b + c, kind) for a, b, c in triples]
        assert computed(f"mad.lo.{kind}", (kind,) * 3, kind, triples) == expected
        chosen = cases(data, kind, kind, "pred")
        assert computed(f"selp.{kind}", (kind, kind, "pred"), kind, chosen) == [a if p else b for a, b, p in chosen]


@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS])
@settings(max_examples=15)
@given(data=st.data())
def test_comparisons(kind, data):
    numbers = cases(data, kind, kind)
    for name, function in COMPARED.items():
        ordered = [function(a, b) and a == a and b == b for a, b in numbers]
        assert computed(f"setp.{name}.{kind}", (kind, kind), "pred", numbers) == ordered
        if kind in FLOATS:
            unordered = [function(a, b) or a != a or b != b for a, b in numbers]
            assert computed(f"setp.{name}u.{kind}", (kind, kind), "pred", numbers) == unordered


def same(found, expected):
    """Whether two floats are the same, with the signs of zeros; all NaN are."""
    return (math.isnan(found) and math.isnan(expected)) or (
        found == expected and math.copysign(1, found) == math.copysign(1, expected)
    )


@pytest.mark.parametrize("kind", FLOATS)
@settings(max_examples=15)
@given(data=st.data())
def test_arithmetic_of_floats_is_rounded_to_nearest(kind, data):
    number = np.float32 if kind == "f32" else np.float64
    pairs = cases(data, kind, kind)
    functions = {"add.rn": np.add, "sub.rn": np.subtract, "mul.rn": np.multiply, "div.rn": np.divide}
    functions |= {"add": np.add, "min": np.fmin, "max": np.fmax}
    with np.errstate(all="ignore"):
        for name, function in functions.items():
            for found, (a, b) in zip(computed(f"{name}.{kind}", (kind, kind), kind, pairs), pairs, strict=True):
                expected = float(function(number(a), number(b)))
                # Of two zeros, the minimum may be either.
                assert same(found, expected) or (name in ("min", "max") and found == expected == 0)
        ones = [(a,) for a, _ in pairs]
        for name, function in {"sqrt.rn": np.sqrt, "neg": np.negative, "abs": np.abs, "rcp.rn": np.reciprocal}.items():
            for found, (a,) in zip(computed(f"{name}.{kind}", (kind,), kind, ones), ones, strict=True):
                assert same(found, float(function(number(a)))), (name, a)


@pytest.mark.parametrize("kind", FLOATS)
@settings(max_examples=40)
@given(data=st.data())
def test_fused_products_are_rounded_once(kind, data):
    limit = 2.0**40
    finite = st.floats(-limit, limit, width=int(kind[1:])).filter(lambda x: x == 0 or abs(x) > 2**-20)
    numbers = data.draw(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=20))
    number = np.float32 if kind == "f32" else np.float64
    nearest, down = (computed(f"fma.{mode}.{kind}", (kind,) * 3, kind, numbers) for mode in ("rn", "rm"))
    for (a, b, c), found, lower in zip(numbers, nearest, down, strict=True):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        candidates = [float(np.nextafter(number(found), number(side))) for side in (-np.inf, np.inf)]
        assert all(abs(Fraction(found) - exact) <= abs(Fraction(other) - exact) for other in candidates)
        assert Fraction(lower) <= exact < Fraction(float(np.nextafter(number(lower), number(np.inf)))) or lower == exact


@settings(max_examples=25)
@given(data=st.data())
def test_conversions(data):
    for source in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        held = source if width(source) > 8 else "u16"
        for target in ("s16", "u32", "s64", "u64"):
            numbers = cases(data, held)
            expected = [wrapped(wrapped(a, source), target) for (a,) in numbers]
            assert computed(f"cvt.{target}.{source}", (held,), target, numbers) == expected
    for source in ("s32", "u32", "s64", "u64"):
        numbers = cases(data, source)
        for target, number in {"f32": np.float32, "f64": np.float64}.items():
            kind = getattr(np, {"s": "int", "u": "uint"}[source[0]] + source[1:])
            expected = [float(number(kind(a))) for (a,) in numbers]
            assert computed(f"cvt.rn.{target}.{source}", (source,), target, numbers) == expected


@pytest.mark.parametrize("source", FLOATS)
@settings(max_examples=25)
@given(data=st.data())
def test_floats_become_the_nearest_integer_that_fits(source, data):
    numbers = cases(data, source)
    for target in ("s32", "u32", "s64", "u64"):
        low, high = limits(target)
        for found, (x,) in zip(
            computed(f"cvt.rzi.{target}.{source}", (source,), target, numbers), numbers, strict=True
        ):
            if math.isnan(x):
                assert found == (0 if width(target) == 32 else wrapped(1 << 63, target))
            else:
                assert found == int(min(max(Fraction(x) if math.isfinite(x) else x, low), high))
    for mode, function in {"rzi": np.trunc, "rmi": np.floor, "rni": np.rint, "rpi": np.ceil}.items():
        for found, (x,) in zip(
            computed(f"cvt.{mode}.{source}.{source}", (source,), source, numbers), numbers, strict=True
        ):
            assert same(found, float(function(x)))


@example(1.0)
@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_approximations_are_close(x):
    (power,) = computed("ex2.approx.ftz.f32", ("f32",), "f32", [(math.log2(x),)])
    assert power == pytest.approx(x, rel=1e-4)
    (reciprocal,) = computed("rcp.approx.ftz.f64", ("f64",), "f64", [(x,)])
    assert reciprocal == pytest.approx(1 / x, rel=1e-5)


def test_every_known_opcode_has_a_family_that_is_tested():
    tested = {"add", "sub", "mul", "mad", "fma", "min", "max", "div", "rem", "and", "or", "xor", "not", "popc", "clz"}
    tested |= {"brev", "bfind", "bfi", "shl", "shr", "selp", "setp", "neg", "abs", "sqrt", "rcp", "cvt", "ex2"}
    moves = {"mov", "cvta"}
    assert {opcode.split(".")[0] for opcode in OPCODES.read_text().split()} <= tested | moves


def test_an_unknown_opcode_is_refused():
    with pytest.raises(NotImplementedError, match=r"PTX opcode sin\.approx\.f32"):
        Program(HEAD + " sin.approx.f32 %f1, %f2;\n ret;\n}")
    with pytest.raises(ValueError, match="an operand of an unknown form: %clock64"):
        Program(HEAD + " mov.u64 %rd1, %clock64;\n ret;\n}")


# --- kernels of Numba ---


def launched(kernel, blocks, threads, *arrays, shared=0, **schedule):
    """Run a kernel with host arrays, which it changes. Raises RuntimeError for what was found."""
    chosen = device.Settings((9, 0), Schedule(**schedule))
    device.Configured(chosen, kernel, blocks, threads, None, shared)(*arrays)


SEEDS = [{"seed": seed, "explore": explore, "longest_turn": 1 + 20 * seed} for seed in range(4) for explore in (0, 50)]


@pytest.mark.parametrize("schedule", SEEDS, ids=str)
def test_operations_of_a_warp(schedule):
    @cuda.jit
    def kernel(x, out):
        lane = cuda.laneid
        thread = cuda.threadIdx.x
        out[0, thread] = cuda.shfl_sync(0xFFFFFFFF, x[thread], 31 - lane)
        out[1, thread] = cuda.shfl_up_sync(0xFFFFFFFF, x[thread], 3)
        out[2, thread] = cuda.shfl_down_sync(0xFFFFFFFF, x[thread], 4)
        out[3, thread] = cuda.shfl_xor_sync(0xFFFFFFFF, x[thread], 9)
        out[4, thread] = cuda.ballot_sync(0xFFFFFFFF, x[thread] > 50)
        out[5, thread] = cuda.match_any_sync(0xFFFFFFFF, np.int32(x[thread] % 4))
        out[6, thread] = cuda.any_sync(0xFFFFFFFF, x[thread] == x[40])
        out[7, thread] = cuda.all_sync(0xFFFFFFFF, x[thread] >= 0)
        out[8, thread] = cuda.syncthreads_count(np.int32(x[thread] > 50))
        if lane < 16:
            out[9, thread] = cuda.shfl_sync(0xFFFF, x[thread], 5)

    x = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    out = np.zeros((10, 64), np.int32)
    launched(kernel, 1, 64, x, out, **schedule)
    warps = x.reshape(2, 32)
    lane = np.arange(32)
    votes = [sum(1 << i for i in lane if warp[i] > 50) for warp in warps]
    expected = [
        warps[:, ::-1],
        warps[:, np.where(lane < 3, lane, lane - 3)],
        warps[:, np.where(lane > 27, lane, lane + 4)],
        warps[:, lane ^ 9],
        np.repeat(np.array(votes, np.uint32).view(np.int32), 32),
        [[sum(1 << j for j in range(32) if warp[j] % 4 == warp[i] % 4) for i in range(32)] for warp in warps],
        np.repeat([x[40] in warp for warp in warps], 32),
        np.ones(64),
        np.full(64, np.count_nonzero(x > 50)),
        np.where(lane < 16, np.repeat(warps[:, 5:6], 32, 1), 0),
    ]
    for row, (found, numbers) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_array_equal(
            found, np.asarray(numbers).reshape(64).astype(np.int64).astype(np.int32), str(row)
        )


@pytest.mark.parametrize("schedule", SEEDS, ids=str)
def test_blocks_take_turns_and_their_atomic_sums_are_exact(schedule):
    @cuda.jit
    def kernel(total, largest, order):
        shared = cuda.shared.array(1, np.int32)
        if cuda.threadIdx.x == 0:
            shared[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(shared, 0, cuda.threadIdx.x)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            cuda.atomic.add(total, 0, shared[0])
            cuda.atomic.max(largest, 0, cuda.blockIdx.x)
            order[cuda.atomic.add(total, 1, 1)] = cuda.blockIdx.x

    total, largest, order = np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(40, np.int32)
    launched(kernel, 40, 96, total, largest, order, **schedule)
    assert total.tolist() == [40 * 95 * 96 // 2, 40]
    assert largest[0] == 39
    assert sorted(order) == list(range(40))
    assert (order != np.arange(40)).any()


def test_each_seed_is_an_order_of_its_own_and_repeats():
    @cuda.jit
    def kernel(cursor, order):
        order[cuda.atomic.add(cursor, 0, 1)] = cuda.blockIdx.x

    def order_of(seed):
        program = Program(compiler.text_of(kernel, (cuda_type(np.int32), cuda_type(np.int32)), (9, 0)))
        passed = device.Passed()
        arrays = [device.to_device(np.zeros(n, np.int32)) for n in (1, 64)]
        for array in arrays:
            passed.add(cuda_type(np.int32), array)
        program.run(64, 1, 0, passed.bits, passed.ranges, Schedule(seed=seed))
        return tuple(arrays[1].copy_to_host())

    assert order_of(1) == order_of(1)
    assert len({order_of(seed) for seed in range(5)}) > 1


def cuda_type(dtype):
    from numba import typeof

    return typeof(np.zeros(1, dtype))


# --- planted faults ---


@cuda.jit
def out_of_bounds(x, n):
    x[n[0]] = 1


@cuda.jit
def shared_out_of_bounds(x, n):
    shared = cuda.shared.array(4, np.int32)
    shared[n[0]] = 1
    x[0] = shared[n[0]]


@cuda.jit
def unwritten(x, n):
    shared = cuda.shared.array(64, np.int32)
    shared[cuda.threadIdx.x] = 1
    cuda.syncthreads()
    x[cuda.threadIdx.x] = shared[n[0]]


@cuda.jit
def no_barrier(x, n):
    shared = cuda.shared.array(64, np.int32)
    shared[cuda.threadIdx.x] = cuda.threadIdx.x
    x[cuda.threadIdx.x] = shared[63 - cuda.threadIdx.x]


@cuda.jit
def barrier_of_a_warp_only(x, n):
    shared = cuda.shared.array(64, np.int32)
    shared[cuda.threadIdx.x] = cuda.threadIdx.x
    cuda.syncwarp()
    x[cuda.threadIdx.x] = shared[63 - cuda.threadIdx.x]


@cuda.jit
def no_barrier_of_a_warp(x, n):
    shared = cuda.shared.array(64, np.int32)
    shared[cuda.threadIdx.x] = cuda.threadIdx.x
    x[cuda.threadIdx.x] = shared[cuda.threadIdx.x ^ 1]


@cuda.jit
def a_shuffle_orders_nothing(x, n):
    shared = cuda.shared.array(64, np.int32)
    shared[cuda.threadIdx.x] = cuda.threadIdx.x
    n[0] = cuda.shfl_sync(0xFFFFFFFF, n[0], 0)
    x[cuda.threadIdx.x] = shared[cuda.threadIdx.x ^ 1]


@cuda.jit
def next_round_too_early(x, n):
    shared = cuda.shared.array(64, np.int32)
    for turn in range(n[0] + 3):
        shared[cuda.threadIdx.x] = turn
        cuda.syncthreads()
        x[cuda.threadIdx.x] = shared[63 - cuda.threadIdx.x]


@cuda.jit
def blocks_read_each_other(x, n):
    n[cuda.blockIdx.x] = 7
    x[cuda.blockIdx.x] = n[(cuda.blockIdx.x + 1) % 2]


@cuda.jit
def one_place_for_all(x, n):
    x[n[0]] = cuda.threadIdx.x


@cuda.jit
def plain_beside_atomic(x, n):
    if cuda.threadIdx.x < 32:
        cuda.atomic.add(x, 0, 1)
    else:
        x[0] = n[0] + 5


@cuda.jit
def some_lanes_at_another_barrier(x, n):
    if cuda.threadIdx.x % 2 > n[0]:
        cuda.syncthreads()
        x[1] = 1
    else:
        cuda.syncthreads()
        x[2] = 1


@cuda.jit
def some_threads_have_ended(x, n):
    if cuda.threadIdx.x > 40 + n[0]:
        return
    cuda.syncthreads()
    x[0] = 0


@cuda.jit
def lanes_do_not_come(x, n):
    if cuda.laneid > 3 + n[0]:
        x[cuda.laneid] = cuda.shfl_sync(0xFFFFFFFF, cuda.laneid, 9)
    cuda.syncthreads()


@cuda.jit
def lanes_not_named(x, n):
    x[cuda.laneid] = cuda.shfl_sync(0xFFFF + n[0], cuda.laneid, 9)


@cuda.jit
def never_ends(x, n):
    while cuda.atomic.add(x, 0, 0) == n[0]:
        pass


@cuda.jit
def blocks_wait_without_fences(x, n):
    if cuda.blockIdx.x == 0:
        n[1] = 7
        cuda.atomic.add(x, 0, 1)
    else:
        while cuda.atomic.add(x, 0, 0) == 0:
            pass
        x[1] = n[1]


@cuda.jit
def blocks_wait_with_one_fence(x, n):
    if cuda.blockIdx.x == 0:
        n[1] = 7
        cuda.threadfence()
        cuda.atomic.add(x, 0, 1)
    else:
        while cuda.atomic.add(x, 0, 0) == 0:
            pass
        x[1] = n[1]


#: What is found, the kernel, its blocks and threads, and the first number of ``n``.
PLANTED = [
    ("an access out of bounds", out_of_bounds, 1, 1, 1000),
    ("an access out of bounds", out_of_bounds, 1, 1, -1000),
    ("an access out of bounds", shared_out_of_bounds, 1, 1, 4),
    ("a read of shared memory that nobody wrote", unwritten, 1, 32, 40),
    ("a race between warps", no_barrier, 1, 64, 0),
    ("a race between warps", barrier_of_a_warp_only, 1, 64, 0),
    ("a race between warps", next_round_too_early, 1, 64, 0),
    ("a race between lanes", no_barrier_of_a_warp, 1, 64, 0),
    ("a race between lanes", a_shuffle_orders_nothing, 1, 64, 0),
    ("a race between blocks", blocks_read_each_other, 2, 1, 0),
    ("a race between blocks", blocks_wait_without_fences, 2, 1, 0),
    ("a race between blocks", blocks_wait_with_one_fence, 2, 1, 0),
    ("lanes write different numbers to one place", one_place_for_all, 1, 32, 0),
    ("a race between", plain_beside_atomic, 1, 64, 0),
    ("lanes of a warp wait at different barriers", some_lanes_at_another_barrier, 1, 64, 0),
    ("a barrier after threads have ended", some_threads_have_ended, 1, 64, 0),
    ("a warp operation to which some of its lanes do not come", lanes_do_not_come, 1, 32, 0),
    ("a lane that the mask of a warp operation does not name", lanes_not_named, 1, 32, 0),
    ("threads that never end", never_ends, 1, 1, 0),
]


@pytest.mark.parametrize("schedule", SEEDS[:3], ids=str)
@pytest.mark.parametrize(("message", "kernel", "blocks", "threads", "number"), PLANTED)
def test_a_planted_fault_is_found_in_any_order(message, kernel, blocks, threads, number, schedule):
    n = np.zeros(64, np.int64)
    n[0] = number
    with pytest.raises(RuntimeError, match=message):
        launched(kernel, blocks, threads, np.zeros(64, np.int32), n, most_steps=100_000, **schedule)


def test_a_misaligned_access_is_found():
    text = HEAD + " ld.param.u64 %rd1, [p0];\n ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+4];\n ret;\n}"
    memory = np.zeros(64, np.uint8)
    start = memory.ctypes.data + -memory.ctypes.data % 16
    found, _ = Program(text).run(1, 1, 0, [start], [Range(start, 32, 4)], Schedule())
    assert [one.fault for one in found] == ["MISALIGNED"]


@pytest.mark.parametrize("schedule", SEEDS, ids=str)
def test_correct_kernels_have_no_findings(schedule):
    @cuda.jit
    def in_turns(x, n):
        shared = cuda.shared.array(64, np.int32)
        thread = cuda.threadIdx.x
        for turn in range(3):
            shared[thread] = thread * turn
            cuda.syncwarp()
            x[thread] = shared[thread ^ 1]
            cuda.syncthreads()
            x[thread] += shared[63 - thread]
            cuda.syncthreads()

    @cuda.jit
    def published(x, n):
        if cuda.blockIdx.x == 0:
            n[1 + cuda.threadIdx.x] = 7
            cuda.syncthreads()
            if cuda.threadIdx.x == 0:
                cuda.threadfence()
                cuda.atomic.add(x, 0, 1)
        else:
            if cuda.threadIdx.x == 0:
                while cuda.atomic.add(x, 0, 0) == 0:
                    pass
                cuda.threadfence()
            cuda.syncthreads()
            x[1 + cuda.threadIdx.x] = n[1 + 31 - cuda.threadIdx.x]

    x = np.zeros(64, np.int32)
    launched(in_turns, 1, 64, x, np.zeros(64, np.int64), **schedule)
    assert x.tolist() == [2 * (t ^ 1) + 2 * (63 - t) for t in range(64)]
    x[:] = 0
    launched(published, 2, 32, x, np.zeros(64, np.int64), **schedule)
    assert x[1:33].tolist() == [7] * 32


def test_traffic_is_counted_in_sectors_and_passes():
    @cuda.jit
    def kernel(x, out):
        shared = cuda.shared.array(1024, np.float32)
        lane = cuda.threadIdx.x
        shared[32 * lane] = x[lane]  # 32 lanes use one bank
        cuda.syncwarp()
        out[8 * lane] = shared[32 * lane]  # a sector of its own for each lane

    arrays = [device.to_device(np.arange(256, dtype=np.float32)) for _ in range(2)]
    with device.launches() as found:
        device.Configured(device.Settings(), kernel, 1, 32)(*arrays)
    (one,) = found
    opcodes = [instruction.opcode for instruction in one.program.kernel.instructions]
    by_opcode = dict(zip(opcodes, one.counts, strict=True))
    assert tuple(by_opcode["ld.global.f32"])[:5] == (1, 32, 1, 4, 4)
    assert tuple(by_opcode["st.global.f32"])[2:5] == (1, 32, 4)
    assert tuple(by_opcode["ld.shared.f32"])[5:] == (32, 1)
