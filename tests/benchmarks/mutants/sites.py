"""Where a program can be turned, and how: Cosmic Ray's operators on the places that decide what it does.

Left out are places where a mutant would say nothing of the tests: annotations and unions of types, decorators, what
only a type checker reads, the wording of messages.
"""

import ast
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins
import parso
from cosmic_ray.ast import ast_nodes, get_ast, is_number
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator

FAMILIES = (
    "core/AddNot",
    "core/ExceptionReplacer",
    "core/ReplaceAndWithOr",
    "core/ReplaceBinaryOperator",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceComparisonOperator",
    "core/ReplaceContinueWithBreak",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceUnaryOperator",
    "core/ZeroIterationForLoop",
)
Place = tuple[int, int]

ODD = ("LShift", "RShift", "BitAnd", "BitOr", "BitXor", "Is", "IsNot", "Not", "Invert", "UAdd")
"""What an operator is not turned into: most raise a TypeError at once, which no test has to look for."""

OF_TRUTHS = ("BitAnd_Mul", "BitOr_Add")
"""The same of arrays of truths; sets and flags raise a TypeError at once."""


def _telling(name: str) -> bool:
    if name.endswith(OF_TRUTHS):
        return False
    _, *turned = name.split("_")
    return name.startswith(FAMILIES) and (not turned or turned[-1] not in ODD or turned[0] in ("Is", "IsNot"))


class DoubledNumber(Operator):
    """Doubles a number: 0 becomes 1, and 1 becomes 0. Cosmic Ray's own adds 1 or takes it away, which in a bound of
    4,096 says nothing of the tests."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[Place, Place]]:
        if is_number(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        value = ast.literal_eval(node.value)
        turned = type(value)(1 - value) if value in (0, 1) else 2 * value
        return parso.python.tree.Number(f" {turned if math.isfinite(turned) else 0.0}", node.start_pos)

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


OPERATORS = {
    name: cosmic_ray.plugins.get_operator(name)()
    for name in sorted(cosmic_ray.plugins.operator_names())
    if _telling(name)
} | {"DoubledNumber": DoubledNumber()}


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A place in a file, with every way to turn it: an operator's name, and which of its occurrences in the file."""

    path: Path
    line: int
    column: int
    ways: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`before` and `after` are the line that differs, without its indentation; `lines` are those of its statement."""

    path: Path
    line: int
    lines: range
    operator: str
    before: str
    after: str
    source: str


def sites(root: Path, path: Path) -> list[Site]:
    """Of the file `path` under `root`, in order."""
    source = (root / path).read_text()
    left_out = list(_left_out(ast.parse(source)))
    nodes = list(ast_nodes(get_ast(source)))
    ways: dict[Place, list[tuple[str, int]]] = defaultdict(list)
    for name, operator in OPERATORS.items():
        occurrence = 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                odd = _between_parameters(node) or _odd_exception(node)
                if not odd and not any(begin <= start < end for begin, end in left_out):
                    ways[start].append((name, occurrence))
                occurrence += 1
    return [Site(path, line, column, tuple(ways[line, column])) for line, column in sorted(ways)]


def mutant(root: Path, site: Site, way: int) -> Mutant | None:
    """The file with one place turned; none where that changes no code."""
    source = (root / site.path).read_text()
    name, occurrence = site.ways[way]
    turned = mutate_code(source, OPERATORS[name], occurrence)
    if turned is None or _same(source, turned):
        return None
    before, after = _difference(source, turned)
    lines = _statement(source, site.line)
    return Mutant(site.path, site.line, lines, name.removeprefix("core/"), before, after, turned)


def _statement(source: str, line: int) -> range:
    """Lines of the innermost statement at `line`; of one with a body, those before it."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):  # outermost first
        if isinstance(node, ast.stmt | ast.excepthandler):
            body = getattr(node, "body", None)
            end = max(body[0].lineno, node.lineno + 1) if body else (node.end_lineno or node.lineno) + 1
            if node.lineno <= line < end:
                found = range(node.lineno, end)
    return found


def _same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return True


def _difference(one: str, other: str) -> tuple[str, str]:
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    return next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))


def _between_parameters(node: parso.tree.NodeOrLeaf) -> bool:
    """Whether it is the `*` or `/` of a signature, which Cosmic Ray takes for an operator."""
    return node.type == "operator" and node.parent is not None and node.parent.type in ("parameters", "param")


def _odd_exception(node: parso.tree.NodeOrLeaf) -> bool:
    """Whether it catches more than exceptions by their plain names, as `asyncio.CancelledError` or `(*SOME, OSError)`,
    at which Cosmic Ray ends with an error."""
    if node.type != "except_clause":
        return False
    caught = ast.parse(f"try: pass\n{node.get_code().strip()}: pass").body[0]
    return isinstance(caught, ast.Try) and any(
        isinstance(part, ast.Attribute | ast.Starred) for part in ast.walk(caught.handlers[0].type or caught)
    )


def _left_out(tree: ast.AST) -> Iterator[tuple[Place, Place]]:
    for node in ast.walk(tree):
        for part in _parts_left_out(node):
            yield (part.lineno, part.col_offset), (part.end_lineno or part.lineno, part.end_col_offset or 0)


def _parts_left_out(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
        yield node.returns
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
        yield node.annotation
    if isinstance(node, ast.JoinedStr):
        yield node
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        yield node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _is_type(node.right):
        yield node


def _is_type(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or ast.unparse(node)[:1].isupper()
