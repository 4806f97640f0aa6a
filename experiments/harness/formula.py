"""Arithmetic over the columns of a raw row, for [compute] of study.conf: numbers, column names,
+ - * / ** ( ), and min, max, and abs. Nothing else is evaluated."""

import ast
import math
import operator

from harness import HarnessError

_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    # Of floats: 9**9**9 overflows at once. A root of -1 is no float, and an error.
    ast.Pow: lambda base, exponent: float(base) ** float(exponent),
}
_CALLS = {"min": min, "max": max, "abs": abs}


def evaluate(text, row):
    """The value over `row` (column -> text or number). Dividing by nothing gives 0: a stage that no
    request passed took no time. HarnessError names what cannot be evaluated."""
    try:
        value = float(_value(ast.parse(text, mode="eval").body, row))
    except ZeroDivisionError:
        return 0.0
    except (SyntaxError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise HarnessError(f"[compute] {text}: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise HarnessError(f"[compute] {text[:60]}...: nested too deeply") from error
    if not math.isfinite(value):
        raise HarnessError(f"[compute] {text}: {value} is no number")
    return value


def _value(node, row):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in row:
            raise KeyError(f"no column {node.id}")
        return float(row[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, row), _value(node.right, row))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, row)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        return _CALLS[node.func.id](*(_value(argument, row) for argument in node.args))
    raise ValueError("only columns, numbers, + - * / ** ( ), min, max and abs are understood")
