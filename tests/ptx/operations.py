"""C++ for what one lane does at each opcode.

In this code, ``D0`` and ``D1`` are the bits of the targets, and ``S0`` to ``S3`` those of the sources. ``get<T>(bits)``
reads a number of type T, and ``bits<T>(number)`` turns it back. Loads, branches, barriers and operations of a warp are
no operations of one lane: `machine.cpp` has those.
"""

#: Types of C++ by types of PTX.
TYPES = {"f32": "float", "f64": "double", "pred": "bool"}
for _size in (8, 16, 32, 64):
    TYPES |= {f"s{_size}": f"int{_size}_t", f"u{_size}": f"uint{_size}_t", f"b{_size}": f"uint{_size}_t"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARISONS |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # of unsigned numbers
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%"}
SYMBOLS |= {"and": "&", "or": "|", "xor": "^", "min": "<", "max": ">"}
#: Functions that round a float to a whole number, by the modifier of a conversion.
ROUNDINGS = {"rzi": "std::trunc", "rmi": "std::floor", "rpi": "std::ceil", "rni": "std::nearbyint"}


def code_of(opcode: str) -> str:
    """Return the C++ of an opcode. Raises NotImplementedError if it is unknown."""
    family, *modifiers = opcode.split(".")
    kind = modifiers[-1] if modifiers else ""
    if family in _FAMILIES:
        code = _FAMILIES[family](kind, modifiers)
        if code is not None:
            return code
    raise NotImplementedError(f"PTX opcode {opcode}")


def _source(number: int, kind: str) -> str:
    return f"get<{TYPES[kind]}>(S{number})"


def _result(kind: str, expression: str) -> str:
    return f"D0 = bits<{TYPES[kind]}>({expression});"


def _is_float(kind: str) -> bool:
    return kind[0] == "f"


def _unsigned(kind: str) -> str:
    """Return the type for arithmetic that wraps around, as integers of PTX do. Signed overflow is undefined in C++."""
    return kind if _is_float(kind) else "u" + kind[1:]


def _width(kind: str) -> int:
    return int(kind[1:])


def _arithmetic(symbol: str):
    def code(kind: str, modifiers: list[str]) -> str | None:
        if symbol == "*" and modifiers[0] == "wide":
            wide = f"{kind[0]}{2 * _width(kind)}"
            return _result(wide, f"({TYPES[wide]}){_source(0, kind)} * ({TYPES[wide]}){_source(1, kind)}")
        if symbol == "*" and modifiers[0] == "hi":
            doubled = ("" if kind[0] == "s" else "unsigned ") + "__int128"
            return _result(kind, f"(({doubled}){_source(0, kind)} * ({doubled}){_source(1, kind)}) >> {_width(kind)}")
        wrapping = _unsigned(kind)
        return _result(kind, f"{_source(0, wrapping)} {symbol} {_source(1, wrapping)}")

    return code


def _multiply_add(kind: str, modifiers: list[str]) -> str | None:
    if _is_float(kind):
        function = "fma_down" if "rm" in modifiers else "std::fma"
        return _result(kind, f"{function}({_source(0, kind)}, {_source(1, kind)}, {_source(2, kind)})")
    if modifiers[0] != "lo":
        return None
    wrapping = _unsigned(kind)
    return _result(kind, f"{_source(0, wrapping)} * {_source(1, wrapping)} + {_source(2, wrapping)}")


def _extreme(name: str):
    def code(kind: str, _: list[str]) -> str:
        left, right = _source(0, kind), _source(1, kind)
        if _is_float(kind):
            return _result(kind, f"std::f{name}({left}, {right})")  # of a number and NaN, the number
        return _result(kind, f"{left} {SYMBOLS[name]} {right} ? {left} : {right}")

    return code


def _logic(symbol: str):
    return lambda kind, _: _result(kind, f"{_source(0, kind)} {symbol} {_source(1, kind)}")


def _shift(is_left: bool):
    """Shifts by the width or more leave zero, or the sign."""

    def code(kind: str, _: list[str]) -> str:
        width, amount = _width(kind), _source(1, "u32")
        if kind[0] == "s":
            return _result(kind, f"{_source(0, kind)} >> ({amount} >= {width} ? {width - 1} : {amount})")
        symbol = "<<" if is_left else ">>"
        return _result(kind, f"{amount} >= {width} ? 0 : {_source(0, _unsigned(kind))} {symbol} {amount}")

    return code


def _division(family: str):
    def code(kind: str, modifiers: list[str]) -> str | None:
        left, right = _source(0, kind), _source(1, kind)
        if _is_float(kind):
            return None if "approx" in modifiers or "full" in modifiers else _result(kind, f"{left} / {right}")
        by_zero = f"division_by_zero(); {_result(kind, '-1' if family == 'div' else '0')}"
        quotient = _result(kind, f"{left} {SYMBOLS[family]} {right}")
        if kind[0] == "u":
            return f"if ({right} == 0) {{ {by_zero} }} else {{ {quotient} }}"
        # The smallest number divided by -1 is undefined in C++.
        by_minus_one = _result(kind, f"0 - {_source(0, _unsigned(kind))}" if family == "div" else "0")
        return f"if ({right} == 0) {{ {by_zero} }} else if ({right} == -1) {{ {by_minus_one} }} else {{ {quotient} }}"

    return code


def _compare(kind: str, modifiers: list[str]) -> str | None:
    name = modifiers[0]
    left, right = _source(0, kind), _source(1, kind)
    if not _is_float(kind):
        return _result("pred", f"{left} {COMPARISONS[name]} {right}") if name in COMPARISONS else None
    if name in ("num", "nan"):
        return _result("pred", f"{'!' if name == 'num' else ''}std::isunordered({left}, {right})")
    # The letter u: also true if one of the numbers is NaN. Without it, "ne" is false then, unlike in C++.
    is_unordered = len(name) == 3
    compared = f"{left} {COMPARISONS[name[:2]]} {right}"
    if is_unordered:
        return _result("pred", f"std::isunordered({left}, {right}) || {compared}")
    return _result("pred", f"!std::isunordered({left}, {right}) && {compared}")


def _select(kind: str, _: list[str]) -> str:
    return _result(kind, f"get<bool>(S2) ? {_source(0, kind)} : {_source(1, kind)}")


def _negate(kind: str, _: list[str]) -> str:
    return _result(kind, f"-{_source(0, kind)}" if _is_float(kind) else f"0 - {_source(0, _unsigned(kind))}")


def _complement(kind: str, _: list[str]) -> str:
    return _result(kind, f"!{_source(0, kind)}" if kind == "pred" else f"~{_source(0, kind)}")


def _absolute(kind: str, _: list[str]) -> str:
    return _result(kind, f"std::abs({_source(0, kind)})")


def _move(kind: str, _: list[str]) -> str:
    if kind == "unpack":
        return "uint64_t both = S0; D0 = (uint32_t)both; D1 = both >> 32;"
    if kind == "pack":
        return "D0 = (uint32_t)S0 | S1 << 32;"
    # The bits of a float stay as they are, also those of a NaN.
    same_bits = "b" + kind[1:] if _is_float(kind) else kind
    return _result(same_bits, _source(0, same_bits))


def _convert(kind: str, modifiers: list[str]) -> str | None:
    target, source = modifiers[-2], modifiers[-1]
    value = _source(0, source)
    if not _is_float(target):
        if not _is_float(source):
            return _result(target, f"({TYPES[target]}){value}")
        rounding = next((function for name, function in ROUNDINGS.items() if name in modifiers), None)
        return rounding and _result(target, f"saturated<{TYPES[target]}>({rounding}({value}))")
    for name, function in ROUNDINGS.items():
        if name in modifiers:
            return _result(target, f"{function}({value})")
    if "sat" in modifiers:
        return _result(target, f"{value} > 0 ? ({value} < 1 ? {value} : 1) : 0")
    if not _is_float(source) and "rn" not in modifiers:
        return None
    return _result(target, f"({TYPES[target]})({value})")


def _leading_zeros(kind: str, modifiers: list[str]) -> str | None:
    """How far the highest bit must be shifted to the left; for zero, the width of ``clz`` and -1 of ``bfind``."""
    if modifiers[0] == "shiftamt" and kind[0] == "s":
        return None
    for_zero = -1 if modifiers[0] == "shiftamt" else _width(kind)
    function = "__builtin_clzll" if _width(kind) == 64 else "__builtin_clz"
    return _result("s32", f"{_source(0, kind)} == 0 ? {for_zero} : {function}({_source(0, kind)})")


def _find_bit(kind: str, modifiers: list[str]) -> str | None:
    return _leading_zeros(kind, modifiers) if modifiers[0] == "shiftamt" else None


def _count_bits(kind: str, _: list[str]) -> str:
    return _result("u32", f"__builtin_popcountll({_source(0, kind)})")


def _reverse_bits(kind: str, _: list[str]) -> str:
    return _result(kind, f"reversed({_source(0, kind)})")


def _insert_bits(kind: str, _: list[str]) -> str:
    return _result(kind, f"inserted({_source(0, kind)}, {_source(1, kind)}, S2 & 255, S3 & 255)")


def _reciprocal(kind: str, modifiers: list[str]) -> str:
    # The approximation of float64 reads and writes the upper half of a number only.
    if kind == "f64" and "approx" in modifiers:
        return _result(kind, "upper_half(1.0 / upper_half(get<double>(S0)))")
    return _result(kind, f"({TYPES[kind]})1 / {_source(0, kind)}")


def _square_root(kind: str, _: list[str]) -> str:
    return _result(kind, f"std::sqrt({_source(0, kind)})")


def _power_of_two(kind: str, _: list[str]) -> str:
    return _result(kind, f"without_subnormals(std::exp2(without_subnormals({_source(0, kind)})))")


_FAMILIES = {
    **{name: _arithmetic(SYMBOLS[name]) for name in ("add", "sub", "mul")},
    **{name: _logic(SYMBOLS[name]) for name in ("and", "or", "xor")},
    **{name: _extreme(name) for name in ("min", "max")},
    **{name: _division(name) for name in ("div", "rem")},
    "fma": _multiply_add,
    "mad": _multiply_add,
    "shl": _shift(True),
    "shr": _shift(False),
    "setp": _compare,
    "selp": _select,
    "neg": _negate,
    "not": _complement,
    "abs": _absolute,
    "mov": _move,
    "cvt": _convert,
    "cvta": lambda *_: "D0 = S0;",  # addresses of global memory are those of the CPU
    "clz": _leading_zeros,
    "bfind": _find_bit,
    "popc": _count_bits,
    "brev": _reverse_bits,
    "bfi": _insert_bits,
    "rcp": _reciprocal,
    "sqrt": _square_root,
    "ex2": _power_of_two,
}
