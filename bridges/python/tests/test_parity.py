"""What mqkv.Client has, mqkv.aio.Client has: the same methods with the same arguments, as
coroutines, and both say what they return."""

import ast
import inspect
import pathlib

import pytest

import mqkv
import mqkv.aio
from mqkv import aio_jobs, aio_mapping, aio_watch, jobs, mapping, watch

PACKAGE = pathlib.Path(mqkv.__file__).parent

# What has no counterpart, and why.
ONLY_SYNC = {
    "Client": {
        "pipeline": "the client is one",
        "range_page": "is of range", "count_range": "is of count",
        "remove_range": "is of delete_range",
        "__contains__": "`in` cannot be awaited: exists",
        "__setitem__": "an assignment cannot be awaited: put",
        "__delitem__": "a deletion cannot be awaited: delete, discard",
        "__enter__": "__aenter__", "__exit__": "__aexit__",
        "__reduce__": "is refused by the client that it has",
    },
    "Transaction": {"__contains__": "exists", "__getitem__": "get", "__enter__": "__aenter__",
                    "__exit__": "__aexit__"},
    "Batch": {"__enter__": "__aenter__", "__exit__": "__aexit__"},
    "Mapping": {"__setitem__": "put", "__delitem__": "delete", "__contains__": "exists",
                "__len__": "length", "__bool__": "length", "__iter__": "__aiter__"},
    "Watch": {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__",
              "__next__": "__anext__", "fileno": "the loop has it"},
    "Queue": {"native": "is of threads", "__len__": "lengths", "__bool__": "lengths",
              "__iter__": "__aiter__"},
    "Job": {"__enter__": "__aenter__", "__exit__": "__aexit__"},
}
# What does not wait.
PLAIN = {
    "Client": {"transaction", "transactional", "batch", "mapping", "watch", "info", "set_priority",
               "queue", "closed", "keys", "scan", "range", "__repr__"},
    "Transaction": {"put", "delete", "add", "append", "touch", "guard", "__setitem__",
                    "__delitem__", "__repr__"},
    "Batch": {"get", "exists", "put", "delete", "add", "append", "exchange", "touch", "scan_page",
              "stats_json", "sync", "withdraw", "clear", "__len__", "transact"},
    "Mapping": {"keys", "items", "values", "__repr__"},
    "Watch": {"position"},
    "Queue": {"name", "__repr__"},
    "Job": set(),
}
PAIRS = {
    "Client": (mqkv.Client, mqkv.aio.Client),
    "Transaction": (mqkv.Transaction, mqkv.aio.Transaction),
    "Batch": (mqkv.Batch, mqkv.aio.Batch),
    "Mapping": (mapping.Mapping, aio_mapping.Mapping),
    "Watch": (watch.Watch, aio_watch.Watch),
    "Queue": (jobs.Queue, aio_jobs.Queue),
    "Job": (jobs.Job, aio_jobs.Job),
}


def declared():
    """The functions of all classes, from the sources and the stub: name -> definitions."""
    found = {}
    for path in sorted(PACKAGE.glob("*.py*")):
        if path.suffix not in (".py", ".pyi"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                methods = found.setdefault((path.stem, node.name), {})
                for item in node.body:
                    if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        methods.setdefault(item.name, []).append(item)
    return found


DECLARED = declared()


def definitions(kind, name):
    """Those of the first class in the order of resolution that has the method."""
    for base in kind.__mro__:
        module = (base.__module__ or "").rpartition(".")[2]
        found = DECLARED.get((module, base.__name__), {})
        if name in found:
            return found[name]
    return None


def public(kind):
    ours = [base for base in kind.__mro__ if base.__module__.startswith("mqkv")]
    names = {name for base in ours for name in vars(base)}
    uninteresting = {"__init__", "__new__", "__doc__", "__module__", "__dict__", "__weakref__",
                     "__annotations__", "__abstractmethods__", "__dataclass_fields__",
                     "__dataclass_params__", "__match_args__", "__hash__", "__eq__", "__slots__",
                     "__parameters__", "__orig_bases__", "__reversed__", "__repr__"}
    return {name for name in names if name not in uninteresting
            and (not name.startswith("_") or name.startswith("__"))
            and callable(inspect.getattr_static(kind, name)) or isinstance(
                inspect.getattr_static(kind, name, None), property)}


def arguments(function):
    given = function.args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)
            if argument.arg != "self"] + ([given.vararg.arg] if given.vararg else [])


@pytest.mark.parametrize("name", PAIRS)
def test_what_one_has_the_other_has(name):
    sync, asynchronous = PAIRS[name]
    reasons = ONLY_SYNC[name]
    missing = {method for method in public(sync)
               if method not in reasons and not hasattr(asynchronous, method)}
    assert not missing
    assert not {method for method in reasons if getattr(asynchronous, method, None) is not None
                and not hasattr(object, method) and name != "Batch"}, "they are there"


@pytest.mark.parametrize("name", PAIRS)
def test_arguments_are_the_same(name):
    sync, asynchronous = PAIRS[name]
    for method in sorted(public(sync) - set(ONLY_SYNC[name])):
        ours, theirs = definitions(sync, method), definitions(asynchronous, method)
        if not ours or not theirs or method in ("__class_getitem__", "update"):
            continue
        assert set(arguments(ours[-1])) == set(arguments(theirs[-1])), method


@pytest.mark.parametrize("name", PAIRS)
def test_what_waits_is_a_coroutine(name):
    _, asynchronous = PAIRS[name]
    for method in sorted(public(asynchronous) - PLAIN[name]):
        if isinstance(inspect.getattr_static(asynchronous, method), property) or method in (
                "__aiter__", "client"):
            continue
        for function in definitions(asynchronous, method) or ():
            told = ast.unparse(function.returns) if function.returns else ""
            assert isinstance(function, ast.AsyncFunctionDef) or "Coroutine" in told, method


# JSON, and lists of Results of several kinds.
ANY = {"stats", "info", "execute"}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_returned_has_a_type(name):
    for kind in PAIRS[name]:
        for method in sorted(public(kind) - ANY - {"__reduce__"}):
            found = definitions(kind, method) or ()
            overloads = [function for function in found if function.decorator_list
                         and any("overload" in ast.unparse(each)
                                 for each in function.decorator_list)]
            for function in overloads or found:
                if function.returns is None:
                    assert False, f"{kind}.{method}"
                told = ast.unparse(function.returns).strip("'\"").replace("Coroutine[Any, Any, ",
                                                                          "Coroutine[")
                assert "Any" not in told, f"{kind}.{method}: {told}"
