"""Messages that the code builds, as templates, read from its source.

A message is an argument of a call such as `Problem(...)` or `SpecError(...)`: a text, a formatted text, or a name that
stands for one. Names are followed to their assignments in the same function, and parameters to the calls of their
function. What remains is a placeholder.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeGuard

from docs.generate.pages import ROOT
from eventconsumer_api.spec.conditions import Reason

_DEPTH = 3


class _Result(ast.Return):
    value: ast.expr


_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Template:
    """A message with placeholders.

    Attributes:
        name: What is called: Problem, SpecError or the like.
        reason: The reason; empty: it depends on something else.
        text: The message; placeholders stand in asterisks.
    """

    name: str
    reason: str
    text: str


class _Source:
    """The source of several modules."""

    def __init__(self, folders: Iterable[str]) -> None:
        self.nodes: list[ast.AST] = []
        self._module: dict[ast.AST, Path] = {}
        self._around: dict[ast.AST, _Function] = {}
        self._functions: dict[tuple[Path | None, str], _Function] = {}
        self._calls: dict[tuple[Path | None, str], list[ast.Call]] = {}
        for path in (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            self._module |= dict.fromkeys(nodes, path)
            self.nodes += nodes
        for node in self.nodes:
            if isinstance(node, _Function):
                # Inner functions come after the outer one, and count.
                self._around |= dict.fromkeys(ast.walk(node), node)
                self._functions[self._place(node, node.name)] = node
            elif isinstance(node, ast.Call):
                self._calls.setdefault(self._place(node, _called(node)), []).append(node)

    def _place(self, node: ast.AST, name: str) -> tuple[Path | None, str]:
        """Where a function of this name is sought: private ones in the module only."""
        return (self._module[node] if name.startswith("_") else None), name

    def texts(self, node: ast.expr, depth: int = _DEPTH) -> list[str]:
        """All texts that an expression can stand for."""
        match node:
            case ast.Constant(value=str(text)):
                return [text.replace("*", "\\*")]
            case ast.JoinedStr(values=values):
                return ["".join(parts) for parts in product(*(self.texts(value, depth) for value in values))]
            case ast.FormattedValue(value=value):
                return self.texts(value, depth)
            case ast.IfExp(body=body, orelse=orelse):
                return [*self.texts(body, depth), *self.texts(orelse, depth)]
            case ast.Call(func=ast.Name(id="redact" | "str"), args=[inner]):
                return self.texts(inner, depth)
            case ast.Name(id=name) if depth:
                values = self.values(node, name)
            case ast.Call(func=ast.Name(id=name)) if depth:
                called = self._functions.get(self._place(node, name))
                values = [each.value for each in ast.walk(called) if _is_result(each)] if called else []
            case _:
                values = []
        found = [text for value in values for text in self.texts(value, depth - 1)]
        worded = [text for text in found if _has_words(text)]
        if isinstance(node, ast.Call) and not _called(node).startswith("_") and len(worded) == 1:
            return worded
        # Texts without words, and the many results of a public function, are better called by their name.
        follow = worded and (not isinstance(node, ast.Call) or _called(node).startswith("_"))
        return found if follow else [_placeholder(node)]

    def values(self, node: ast.AST, name: str) -> list[ast.expr]:
        """What a name stands for at a node: what is assigned to it in the function, or given by callers."""
        function = self._around.get(node)
        if function is None:
            return []
        assigned = [
            each.value
            for each in ast.walk(function)
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id == name
        ]
        return assigned or list(self._arguments(function, name))

    def _arguments(self, function: _Function, parameter: str) -> Iterator[ast.expr]:
        names = [each.arg for each in function.args.args if each.arg not in {"self", "cls"}]
        for call in self._calls.get(self._place(function, function.name), ()):
            given = dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords}
            if parameter in given:
                yield given[parameter]


def _is_result(node: ast.AST) -> TypeGuard[_Result]:
    return isinstance(node, ast.Return) and node.value is not None


def _has_words(text: str) -> bool:
    return " " in re.sub(r"(?<!\\)\*[^*]*(?<!\\)\*", "", text).strip()


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _placeholder(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            pass
        case ast.BinOp():
            name = "number"
        case ast.Call(args=[first, *_]):
            return _placeholder(first)
        case ast.Call(func=ast.Attribute(value=value)) | ast.Subscript(value=value):
            return _placeholder(value)
        case _:
            return "…"
    return f"*{name.strip('_').replace('_', ' ')}*"


def templates(calls: Mapping[str, int], *folders: str) -> list[Template]:
    """All messages of some calls, without duplicates.

    Args:
        calls: Position of the message among a call's arguments, by the name of what is called.
        folders: Where to look, below the root.
    """
    source = _Source(folders)
    return list(dict.fromkeys(each for node in source.nodes for each in _of_node(source, node, calls)))


def _of_node(source: _Source, node: ast.AST, calls: Mapping[str, int]) -> Iterator[Template]:
    if not isinstance(node, ast.Call) or _called(node) not in calls:
        return
    position = calls[_called(node)]
    message = _argument(node, "message", position)
    if message is None:
        return
    reasons = sorted({reason for each in ast.walk(node) for reason in _reasons(source, each)})
    for text in source.texts(message):
        if _has_words(text):  # else it only passes on a message
            yield Template(_called(node), ", ".join(reasons), text)


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    named = {each.arg: each.value for each in call.keywords}
    return named.get(name) or (call.args[position] if len(call.args) > position else None)


def _reasons(source: _Source, node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="Reason"), attr=name):
            yield Reason[name].value
        case ast.Name(id="reason"):
            for value in source.values(node, "reason"):
                yield from _reasons(source, value)
