"""Reads the PTX of one kernel. Every operand becomes the number of a register.

Numbers in the text, special registers such as ``%tid.x``, parameters and addresses of shared arrays become registers,
too, which are filled before the kernel starts. The functions that a kernel calls are inserted where it calls them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

#: No register: an instruction without a guard.
NONE = -1
#: Names of special registers, without the sign %.
SPECIAL = re.compile(r"(?:n?tid|n?ctaid)\.[xyz]|laneid|warpid|dynamic_smem_size")
#: Special registers that this module does not know.
OTHER_SPECIAL = re.compile(r"n?smid|gridid|nwarpid|lanemask_|clock|globaltimer|pm\d|envreg|total_smem_size|cluster")
#: Bytes at which dynamic shared memory begins: a multiple of this, after the static arrays. ptxas does the same.
DYNAMIC_ALIGNMENT = 16


class Place(NamedTuple):
    """A line of source."""

    file: str
    line: int


class Instruction(NamedTuple):
    """One instruction. Operands are numbers of registers."""

    opcode: str  # with all modifiers, such as "add.s64"
    guard: int  # the predicate, or NONE
    negated: bool  # the guard must be false
    targets: list[int]
    sources: list[int]  # of an access, the first one is the address
    offset: int  # bytes, added to the address
    label: str | None  # where a branch goes
    place: Place | None


class Kernel(NamedTuple):
    """A kernel, ready to be decoded."""

    instructions: list[Instruction]
    labels: dict[str, int]  # index of the instruction after each label
    constants: dict[int, int]  # bits by register
    specials: dict[str, int]  # register by name
    parameters: list[int]  # register of each
    static_shared: int  # bytes
    dynamic_at: int  # where dynamic shared memory begins
    n_registers: int


def bytes_of(kind: str) -> int:
    """Return the bytes of a type such as ``u16`` or ``f64``."""
    return int(kind[1:]) // 8


def parse(text: str) -> Kernel:
    """Return the kernel in a text that has one. Raises ValueError for what this module does not know."""
    return _Parser(text).kernel()


class _Function(NamedTuple):
    """A function that kernels call."""

    results: list[str]
    parameters: list[str]
    body: str


class _Parser:
    """The state while a text is read. Names in an inserted function get a ``scope``, which differs for each call."""

    def __init__(self, text: str) -> None:
        self.files = dict(re.findall(r'\.file\s+(\d+)\s+"([^"]+)"', text))
        self.text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
        self.registers: dict[str, int] = {}
        self.constants: dict[int, int] = {}
        self.specials: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        self.instructions: list[Instruction] = []
        self.addresses: dict[str, int] = {}  # of shared arrays
        self.functions: dict[str, _Function] = {}
        self.place: Place | None = None
        self.n_calls = 0
        self.end_of_call = ""

    def kernel(self) -> Kernel:
        """Read the text."""
        entry = re.search(r"\.visible\s+\.entry\s+[\w$]+\s*\((.*?)\)[^{]*", self.text, re.DOTALL)
        if entry is None:
            raise ValueError("the text has no kernel")
        parameters = [self._register(name) for name in re.findall(r"\.param\s[^,]*?([\w$]+)\s*(?:,|$)", entry[1])]
        static, dynamic_at = self._place_shared_arrays()
        for found in re.finditer(r"\.func\s*\(([^)]*)\)\s*([\w$]+)\s*\(([^)]*)\)\s*\{", self.text):
            results, names = (re.findall(r"\.param\s+\.\w+\s+([\w$]+)", found[part]) for part in (1, 3))
            self.functions[found[2]] = _Function(results, names, _body(self.text, found.end() - 1))
        self._read_all(_body(self.text, entry.end()), "")
        n_registers = len(self.registers)
        found_labels, constants, specials = self.labels, self.constants, self.specials
        return Kernel(self.instructions, found_labels, constants, specials, parameters, static, dynamic_at, n_registers)

    def _place_shared_arrays(self) -> tuple[int, int]:
        """Give static shared arrays addresses. Return their bytes, and where dynamic memory begins."""
        end = 0
        for alignment, name, size in re.findall(r"\.shared\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\]", self.text):
            end = _rounded_up(end, int(alignment))
            self.addresses[name] = end
            end += int(size)
        dynamic_at = _rounded_up(end, DYNAMIC_ALIGNMENT)
        for name in re.findall(r"\.extern\s+\.shared\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[\]", self.text):
            self.addresses[name] = dynamic_at
        return end, dynamic_at

    # --- operands ---

    def _register(self, name: str) -> int:
        return self.registers.setdefault(name, len(self.registers))

    def _constant(self, bits: int) -> int:
        bits &= 2**64 - 1
        register = self._register(f"constant {bits:x}")
        self.constants[register] = bits
        return register

    def _operand(self, token: str, scope: str) -> int:
        """Return the register of a token: a register's name, a number, a shared array or a parameter of a call."""
        if token.startswith("%") and SPECIAL.fullmatch(token[1:]):
            self.specials[token[1:]] = self._register(token)
            return self.specials[token[1:]]
        if re.fullmatch(r"0[fF]\w{8}|0[dD]\w{16}", token):
            return self._constant(int(token[2:], 16))
        if re.match(r"-?\d", token):
            return self._constant(int(token.rstrip("U"), 0))
        if token in self.addresses:
            return self._constant(self.addresses[token])
        # What is left are registers and parameters of calls.
        if not re.fullmatch(r"%?[A-Za-z_][\w$]*", token) or OTHER_SPECIAL.match(token[1:]):
            raise ValueError(f"an operand of an unknown form: {token}")
        return self._register(scope + token)

    def _operands(self, token: str, scope: str) -> list[int]:
        """Return the registers of a vector in braces, of two results ``a|b``, or of a single token."""
        tokens = _split(token[1:-1]) if token.startswith("{") else token.split("|")
        return [self._operand(one, scope) for one in tokens]

    def _address(self, token: str, scope: str) -> tuple[int, int]:
        """Return the register and the offset of an address in brackets."""
        name, offset = _address_parts(token)
        return self._operand(name, scope), offset

    # --- statements ---

    def _read_all(self, body: str, scope: str) -> None:
        for statement in _statements(body):
            self._read(statement, scope)

    def _read(self, statement: str, scope: str) -> None:
        while label := re.match(r"([\w$]+):\s*", statement):
            self.labels[scope + label[1]] = len(self.instructions)
            statement = statement[label.end() :]
        if statement.startswith(".loc"):
            file, line = statement.replace(",", " ").split()[1:3]
            self.place = Place(self.files.get(file, file), int(line))
        elif statement and not statement.startswith("."):
            self._read_instruction(statement, scope)

    def _read_instruction(self, statement: str, scope: str) -> None:
        guard, negated = NONE, False
        if statement.startswith("@"):
            predicate, statement = statement.split(None, 1)
            negated = predicate.startswith("@!")
            guard = self._register(scope + predicate.lstrip("@!"))
        opcode, _, rest = statement.partition(" ")
        family, *modifiers = opcode.split(".")
        if family == "call":
            self._insert_call(rest, scope)
            return
        operands = _split(rest)
        targets: list[int] = []
        sources: list[int] = []
        offset, label = 0, None
        if family in ("ret", "exit"):
            # The end of an inserted function is a branch to what follows the call.
            opcode, label = ("bra", self.end_of_call) if scope else ("ret", None)
        elif family == "bra":
            label = scope + operands[0]
        elif family in ("ld", "st") and modifiers[0] == "param":
            opcode, targets, sources = self._parameter_access(family, modifiers[-1], operands, scope)
        elif family in ("ld", "atom"):
            targets = self._operands(operands[0], scope)
            address, offset = self._address(operands[1], scope)
            sources = [address, *(self._operand(token, scope) for token in operands[2:])]
        elif family in ("st", "red"):
            address, offset = self._address(operands[0], scope)
            sources = [address, *(one for token in operands[1:] for one in self._operands(token, scope))]
        elif family in ("bar", "membar", "fence") and opcode != "bar.red.popc.u32":
            sources = [self._operand(token, scope) for token in operands]
        elif family == "mov" and "{" in rest:
            opcode = "mov.unpack" if operands[0].startswith("{") else "mov.pack"
            targets, sources = (self._operands(token, scope) for token in operands)
        else:
            targets = self._operands(operands[0], scope)
            sources = [self._operand(token, scope) for token in operands[1:]]
        self._emit(opcode, targets, sources, offset, label, guard, negated)

    def _emit(
        self,
        opcode: str,
        targets: list[int],
        sources: list[int],
        offset: int = 0,
        label: str | None = None,
        guard: int = NONE,
        negated: bool = False,
    ) -> None:
        self.instructions.append(Instruction(opcode, guard, negated, targets, sources, offset, label, self.place))

    def _parameter_access(
        self, family: str, kind: str, operands: list[str], scope: str
    ) -> tuple[str, list[int], list[int]]:
        """Return a move between registers: parameters of kernels and of calls are registers."""
        which, other = reversed(operands) if family == "ld" else operands
        name, offset = _address_parts(which)
        if offset:
            raise ValueError(f"a part of a parameter: {which}")
        parameter = self._register(name if name in self.registers and not scope else scope + name)
        register = self._operand(other, scope)
        if family == "st":
            return "mov.b64", [parameter], [register]
        width = 8 * bytes_of(kind)
        return f"cvt.u32.u{width}" if width < 32 else f"mov.b{width}", [register], [parameter]

    def _insert_call(self, rest: str, scope: str) -> None:
        called = re.match(r"\(([^)]*)\)\s*,\s*([\w$]+)\s*,\s*\(([^)]*)\)", rest)
        if called is None:
            raise ValueError(f"a call of an unknown form: {rest}")
        results, arguments = _split(called[1]), _split(called[3])
        function = self.functions[called[2]]
        self.n_calls += 1
        inner = f"call {self.n_calls}: "
        for argument, name in zip(arguments, function.parameters, strict=True):
            self._emit("mov.b64", [self._register(inner + name)], [self._register(scope + argument)])
        before, self.end_of_call = self.end_of_call, inner + "end"
        self._read_all(function.body, inner)
        self.labels[self.end_of_call] = len(self.instructions)
        self.end_of_call = before
        for result, name in zip(results, function.results, strict=True):
            self._emit("mov.b64", [self._register(scope + result)], [self._register(inner + name)])


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _address_parts(token: str) -> tuple[str, int]:
    found = re.fullmatch(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]", token)
    if found is None:
        raise ValueError(f"an address of an unknown form: {token}")
    return found[1], int(found[2] or 0)


def _body(text: str, start: int) -> str:
    """Return the text between the first brace from ``start`` on and the brace that closes it."""
    begin = text.index("{", start)
    depth = 0
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[begin + 1 : begin + brace.start()]
    raise ValueError("a brace is missing")


def _statements(body: str) -> Iterator[str]:
    """Yield statements and labels. Braces of scopes are dropped, and those of vectors kept."""
    # Lines without a semicolon at their end: labels, and notes on lines of source.
    body = re.sub(r"^(\s*(?:[\w$]+:|\.(?:loc|file|pragma)\s[^;\n]*?);?)[ \t]*$", r"\1;", body, flags=re.MULTILINE)
    for piece in body.split(";"):
        # A brace of a scope stands at the beginning of what the semicolon ends.
        statement = " ".join(re.sub(r"^[\s{}]+", "", piece).split())
        if statement:
            yield statement


def _split(text: str) -> list[str]:
    """Cut operands at commas outside of braces and brackets."""
    return list(_nonempty(re.split(r",(?![^{\[(]*[}\])])", text)))


def _nonempty(tokens: Iterable[str]) -> Iterator[str]:
    return (token.strip() for token in tokens if token.strip())
