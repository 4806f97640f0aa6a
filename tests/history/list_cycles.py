#!/usr/bin/env python3
"""Whether histories of lists are strictly serialisable, by looking for cycles.

    list_cycles.py [--elle OUT] FILE...

FILE: what `transaction_load lists` noted. Each value only grows, by numbers that are appended once
in the whole history, so that what is read tells the order of all the appends before. From that
follows who came before whom: appends to one key (ww), who read an append (wr), and who did not see
it yet (rw), as Adya, Liskov and O'Neil have it ("Generalized Isolation Level Definitions", ICDE
2000); real time (rt): who was answered before the other one asked; and the order within a batch
(rt, too). A cycle is a history that no order of the transactions explains; that this finds what is
wrong in linear time Kingsbury and Alvaro have shown ("Elle", VLDB 14(3), 2020). Reads of a
transaction see what was there before it; a guard that held is a read.

--elle: writes the history as Elle, elle-cli and adya read it, too (JSON lines, list-append).

Prints a line for each file. Exit status 1: an anomaly was found, and is printed; 2: a file cannot
be read. No code of others is in here.
"""
import collections
import functools
import json
import sys

NEVER = 1 << 63
KINDS = (  # what to look for, the worst first
    ("G0", {"ww"}),
    ("G1c", {"ww", "wr"}),
    ("G2-item", {"ww", "wr", "rw"}),
    ("G0-realtime", {"ww", "rt"}),
    ("G1c-realtime", {"ww", "wr", "rt"}),
    ("G2-item-realtime", {"ww", "wr", "rw", "rt"}),
)


class Wrong(Exception):
    """An anomaly that needs no cycle."""


@functools.cache
def numbers_of(text):
    return tuple(int(word) for word in text.split())


class Transaction:
    def __init__(self, note):
        self.note = note
        self.start, self.end = note["start_ns"], note["end_ns"]
        self.outcome = note["outcome"]
        self.reads = {}  # key: what was there before, as a tuple
        self.appends = {}  # key: element
        self.sizes = {}  # key: the size that the answer told, in bytes
        self.versions = {}  # key: of the append; none if the answer was lost
        self.edges = {}  # of later ones: the kind

    def read(self, key, text):
        seen = numbers_of(text)
        if self.reads.setdefault(key, seen) != seen:
            raise Wrong(f"internal: two reads of {key} at one moment differ\n  {self}")

    def __str__(self):
        return json.dumps(self.note)


def elements(steps):
    return {step["key"]: int(step["value"]) for step in steps if step["call"] == "append"}


def note_guards(transaction, guards):
    for guard in guards:
        absent = guard["kind"] == "absent" or (guard["kind"] == "version" and not guard["version"])
        if absent:
            transaction.read(guard["key"], "")
        elif "value" in guard:
            transaction.read(guard["key"], guard["value"])


def note_results(transaction, steps, results):
    for step, result in zip(steps, results, strict=True):
        if step["call"] == "get":
            transaction.read(step["key"], result.get("value", ""))
        elif step["call"] == "append":
            transaction.versions[step["key"]] = result["version"]
            transaction.sizes[step["key"]] = result["number"]


def understand(notes):
    """The transactions, and what was surely not appended: element: note."""
    transactions, never = [], {}
    for note in notes:
        transaction = Transaction(note)
        lists = {"done": note["then"], "else": note["else"]}
        if transaction.outcome == "unknown":
            transaction.end = NEVER
            transaction.possible = [elements(steps) for steps in lists.values()]
        elif transaction.outcome == "failed":
            raise Wrong(f"nothing can fail here\n  {transaction}")
        else:
            steps = lists.pop(transaction.outcome)
            transaction.appends = elements(steps)
            count = len(note["guards"]) if transaction.outcome == "done" else note["guard"]
            note_guards(transaction, note["guards"][:count])
            note_results(transaction, steps, note["results"])
            for others in lists.values():
                never.update((element, note) for element in elements(others).values())
        transactions.append(transaction)
    return transactions, never


def longest_reads(transactions):
    """For each key the longest read, of which all others are the beginning."""
    longest = {}
    for transaction in transactions:
        for key, seen in transaction.reads.items():
            if len(seen) > len(longest.get(key, ())):
                longest[key] = seen
    for transaction in transactions:
        for key, seen in transaction.reads.items():
            if longest.get(key, ())[: len(seen)] != seen:
                raise Wrong(
                    f"incompatible order of {key}\n  {transaction}\n  but {longest[key]} was read"
                )
    return longest


def settle_unknown(transactions, longest):
    """Those whose answer was lost: what was seen of them tells which list was done."""
    seen = {element for key in longest for element in longest[key]}
    for transaction in transactions:
        if transaction.outcome == "unknown":
            done = [one for one in transaction.possible if seen & set(one.values())]
            if len(done) > 1:
                raise Wrong(f"both lists were done\n  {transaction}")
            transaction.appends = done[0] if done else {}
    return [one for one in transactions if one.outcome != "unknown" or one.appends]


def order_appends(transactions, longest, never):
    """For each key the writers in their order, as pairs of element and transaction. What nobody has
    read follows, as the versions have it; if its answer was lost, it was never done."""
    writers = collections.defaultdict(dict)
    for transaction in transactions:
        for key, element in transaction.appends.items():
            writers[key][element] = transaction
    orders = {}
    for key in longest.keys() | writers.keys():
        order = []
        for element in longest.get(key, ()):
            if element in never:
                raise Wrong(
                    f"G1a: {key} has {element} of a list that was not done\n  {never[element]}"
                )
            if element not in writers[key]:
                raise Wrong(f"{key} has {element}, which nobody has appended, or twice")
            order.append((element, writers[key].pop(element)))
        order += sorted(
            (item for item in writers[key].items() if key in item[1].versions),
            key=lambda item: item[1].versions[key],
        )
        orders[key] = order
        check_answers(key, order, len(longest.get(key, ())))
    return orders


def check_answers(key, order, read):
    """Versions grow, and sizes are those of all that was appended up to there, as far as that was
    read: behind it may stand what was appended without an answer."""
    version, size = 0, 0
    for number, (element, transaction) in enumerate(order):
        size += 1 + len(str(element))
        if key not in transaction.versions:
            continue
        if transaction.versions[key] <= version:
            raise Wrong(f"versions of {key} are not as its appends\n  {transaction}")
        version = transaction.versions[key]
        if number < read and transaction.sizes[key] != size:
            raise Wrong(f"lost update of {key}: {size} bytes, not as answered\n  {transaction}")


def add_edge(one, other, kind):
    if one is not other:
        one.edges.setdefault(other, set()).add(kind)


def add_dependencies(transactions, orders):
    place = {key: {e: i for i, (e, _) in enumerate(order)} for key, order in orders.items()}
    for order in orders.values():
        for (_, one), (_, other) in zip(order, order[1:]):
            add_edge(one, other, "ww")
    for transaction in transactions:
        for key, seen in transaction.reads.items():
            order = orders.get(key, [])
            at = place[key][seen[-1]] if seen else -1
            if at >= 0:
                add_edge(order[at][1], transaction, "wr")
            if at + 1 < len(order):
                add_edge(transaction, order[at + 1][1], "rw")
            own = transaction.appends.get(key)
            if own is not None and place[key][own] != at + 1:
                raise Wrong(f"lost update: others appended to {key} meanwhile\n  {transaction}")


def add_real_time(transactions):
    """Edges from each to those that began after it ended, but for those that others imply."""
    ended = sorted((one for one in transactions if one.end < NEVER), key=lambda one: one.end)
    frontier, at = [], 0
    for transaction in sorted(transactions, key=lambda one: one.start):
        while at < len(ended) and ended[at].end < transaction.start:
            one = ended[at]
            frontier = [other for other in frontier if other.end >= one.start]
            frontier.append(one)
            at += 1
        for one in frontier:
            add_edge(one, transaction, "rt")
    last = {}
    for transaction in transactions:  # of each client in its order
        note = transaction.note
        if transaction.outcome == "unknown":
            continue  # a read before it may have been repeated, after it
        before = last.get(note["client"])
        if note["call"] == "batch" and before and before.note["start_ns"] == note["start_ns"]:
            add_edge(before, transaction, "rt")
        last[note["client"]] = transaction


def component_of_cycle(transactions, kinds):
    """A strongly connected component of more than one by edges of these kinds (Tarjan), or None."""
    index, low, on_stack, stack = {}, {}, set(), []
    for root in transactions:
        if root in index:
            continue
        work = [(root, iter(root.edges))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if not node.edges[other] & kinds:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(other.edges)))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    if len(component) > 1:
                        return component
    return None


def shortest_cycle(component, kinds):
    best = None
    for start in list(component)[:50]:
        came, queue = {}, collections.deque([start])
        while queue and start not in came:
            node = queue.popleft()
            for other, how in node.edges.items():
                if how & kinds and other in component and other not in came:
                    came[other] = node
                    queue.append(other)
        cycle, node = [start], came[start]
        while node is not start:
            cycle.append(node)
            node = came[node]
        if best is None or len(cycle) < len(best):
            best = cycle[::-1]
    return best


def find_anomaly(notes):
    """What is wrong with the history, as text; None: nothing."""
    try:
        transactions, never = understand(notes)
        longest = longest_reads(transactions)
        transactions = settle_unknown(transactions, longest)
        orders = order_appends(transactions, longest, never)
        add_dependencies(transactions, orders)
    except Wrong as wrong:
        return str(wrong)
    add_real_time(transactions)
    everything = KINDS[-1][1]
    if not component_of_cycle(transactions, everything):
        return None
    for name, kinds in KINDS:
        component = component_of_cycle(transactions, kinds)
        if component:
            cycle = shortest_cycle(component, kinds)
            text = f"{name}: a cycle of {len(cycle)}"
            for one, other in zip(cycle, cycle[1:] + cycle[:1]):
                how = "|".join(sorted(one.edges[other] & kinds))
                text += f"\n  {one}\n    before ({how}) that:"
            return text
    return "a cycle"


# For others --------------------------------------------------------------------------------------


def elle_values(transaction, numbers):
    """What was asked and what was answered, as lists of Elle's operations."""
    reads = sorted(transaction.reads.items())
    appends = [["append", numbers[k], e] for k, e in sorted(transaction.appends.items())]
    asked = [["r", numbers[key], None] for key, _ in reads] + appends
    return asked, [["r", numbers[key], list(seen)] for key, seen in reads] + appends


def write_elle(path, notes):
    """Processes do one thing at a time, and those whose answer was lost do nothing more."""
    transactions, _ = understand(notes)
    transactions = settle_unknown(transactions, longest_reads(transactions))
    numbers = {}
    for transaction in transactions:
        for key in transaction.reads.keys() | transaction.appends.keys():
            numbers.setdefault(key, len(numbers))
    free, processes, events = [], 0, []
    for transaction in transactions:
        if not transaction.reads and not transaction.appends:
            continue
        asked, answered = elle_values(transaction, numbers)
        lost = transaction.outcome == "unknown"
        events.append((transaction.start, 0, id(transaction), "invoke", asked))
        kind = "info" if lost else "ok"
        events.append((transaction.end, 1, id(transaction), kind, asked if lost else answered))
    process_of = {}
    with open(path, "w", encoding="utf-8") as file:
        for index, (when, _, which, kind, value) in enumerate(sorted(events, key=lambda e: e[:3])):
            if kind == "invoke":
                if not free:
                    free.append(processes)
                    processes += 1
                process_of[which] = free.pop()
            elif kind == "ok":
                free.append(process_of[which])
            event = {"index": index, "type": kind, "process": process_of[which], "f": "txn"}
            event |= {"time": min(when, NEVER - 1), "value": value}
            file.write(json.dumps(event) + "\n")


def main():
    arguments = sys.argv[1:]
    elle = arguments[1] if arguments[:1] == ["--elle"] else None
    status = 0
    for path in arguments[2:] if elle else arguments:
        try:
            with open(path, encoding="utf-8") as file:
                notes = [json.loads(line) for line in file]
        except (OSError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        if elle:
            write_elle(elle, notes)
        anomaly = find_anomaly(notes)
        unknown = sum(note["outcome"] == "unknown" for note in notes)
        verdict = "NOT STRICTLY SERIALISABLE" if anomaly else "strictly serialisable"
        print(f"{verdict}: {path}, {len(notes)} calls, {unknown} of unknown fate")
        if anomaly:
            print(anomaly)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
