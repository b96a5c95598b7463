"""What NCCL says of its graphs: connections, rings, trees, channels. Each message is taken into the facts."""

from __future__ import annotations

from labtui.machine.nccl import grammar
from labtui.machine.nccl.facts import MOST_CONNECTIONS, Facts, Origin, room


def connections(facts: Facts, origin: Origin, text: bytes) -> bool:
    """Counts every whole connection in a text; says whether there was one."""
    found = False
    for match in grammar.CONNECTION.finditer(text):
        facts.connect(origin, match[0])
        found = True
    for match in grammar.COLLNET.finditer(text):
        facts.collnet[(match[3] + (match[4] or b"")).decode(errors="replace")] += 1
        found = True
    return found


def channel(facts: Facts, origin: Origin, message: bytes) -> None:
    if b" via " in message:
        if not connections(facts, origin, message):
            facts.cut_connections += 1
        return
    match = grammar.RING_ORDER.search(message)
    if match is None:
        facts.cut_connections += b" -> " in message or b" via" in message
        return
    ranks = tuple(map(int, match[3].split()))
    size, number = len(ranks), int(match[1])
    total = int(match[2]) if match[2] else number + 1
    if not room(facts.ring_channels, size):
        return
    facts.ring_channels[size] = max(facts.ring_channels.get(size, 0), total)
    if size not in facts.rings:
        if any(size < longer for longer in facts.rings):
            return
        facts.rings = {size: {}}
    facts.rings[size].setdefault(number, ranks)
    facts.largest = max(facts.largest, size)


def ring(facts: Facts, origin: Origin, message: bytes) -> None:
    if b" via " in message:
        channel(facts, origin, message)
        return
    note_size(facts, origin, message)
    for number, previous, rank, following in grammar.RING_STEP.findall(message):
        key = (origin.size, int(number), int(rank))
        if room(facts.steps, key, MOST_CONNECTIONS):
            facts.steps.setdefault(key, (int(previous), int(following)))


def trees(facts: Facts, origin: Origin, message: bytes) -> None:
    note_size(facts, origin, message)
    entries = 0
    for number, left, rank, right in grammar.TREE.findall(message):
        entries = max(entries, int(number) + 1)
        # Children are the side with slashes; 2.4 prints the parent first, later versions last.
        downs, up = (left, right) if b"/" in left else (right, left)
        _tree(facts, origin, number, rank, up, downs)
    if room(facts.tree_entries, origin.size):
        facts.tree_entries[origin.size] = max(facts.tree_entries.get(origin.size, 0), entries)


def tree_step(facts: Facts, origin: Origin, message: bytes) -> None:
    for number, up, rank, downs in grammar.TREE_STEP.findall(message):
        _tree(facts, origin, number, rank, up, downs)


def _tree(facts: Facts, origin: Origin, number: bytes, rank: bytes, up: bytes, downs: bytes) -> None:
    try:
        children = tuple(child for child in map(int, downs.split(b"/")) if child >= 0)
        key = (origin.size, int(number), int(rank))
        if room(facts.trees, key, MOST_CONNECTIONS):
            facts.trees.setdefault(key, (int(up), children))
    except ValueError:
        pass  # cut or interleaved in the middle of a number


def channel_count(facts: Facts, origin: Origin, message: bytes) -> None:
    match = grammar.CHANNEL_COUNT.search(message)
    if match and room(facts.coll_channels, origin.size):
        facts.coll_channels[origin.size] = max(facts.coll_channels.get(origin.size, 0), int(match[1]))


def note_size(facts: Facts, origin: Origin, message: bytes) -> None:
    match = grammar.COMMUNICATOR_SIZE.search(message)
    if match:
        origin.size = int(match[1])
        facts.largest = max(facts.largest, origin.size)
