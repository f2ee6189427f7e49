"""Settings with which numba compiles kernels for narrower vector registers than this processor has."""

#: Environment variables by the width of the registers in bits. Numba would add all features of this processor to the
#: name, so the features are named too.
NARROW = {
    128: {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": "+avx,+fma"},
    256: {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
}
