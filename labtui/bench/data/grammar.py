"""Writes harbour.txt, the keeper's log of a harbour that doesn't exist: the same text on every machine.

    python -m labtui.bench.data.grammar > labtui/bench/data/harbour.txt

A rule is a list of phrases, {name} in a phrase stands for one of that rule's phrases, drawn by chance. So there is
something to learn on every scale: letters into words, words into sentences, and days that are counted. What is said
was made up here, and the text has no other author. Standard library only.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable

SEED = 1
CHARACTERS = 300_000
"""The text ends with the first day that reaches so many."""

RULES = {
    "day": [
        "Day {number}. {weather} {event} {event}\n{talk}\n{event} {closing}\n\n",
        "Day {number}. {weather} {event}\n{talk}\n{talk}\n{closing}\n\n",
        "Day {number}. {event} {weather} {event} {event} {closing}\n\n",
    ],
    "weather": [
        "{Wind} from the {quarter}, {force}.",
        "Fog until {hour}, then {sky}.",
        "{Sky} all morning; the glass {glass}.",
        "Rain ({number} mm by noon), later {sky}.",
        "The sea was {sea}, the sky {sky}.",
    ],
    "event": [
        "At {hour} the {ship} {came} with {cargo}.",
        "{Person} {mended} the {thing}, and it {held}.",
        "The {ship} waited for the tide while {person} {waited}.",
        "{Number} boats went out; {count} came back before dark.",
        "Nobody had seen the {ship} since Day {number}, but at {hour} there she was, {state}.",
        "We sold {cargo} to a trader from {place} for {number} crowns.",
        "{Person} says that {opinion}.",
        "A letter from {place}: {opinion}, it said.",
        "The {thing} of the {ship} was {state}, so {person} {mended} it.",
    ],
    "talk": [
        '"{question}" asked {person}.\n{Person}: "{answer}"',
        '"{question}"\n"{answer}"\n"{reply}" And {person} {waited}.',
        '{Person} looked at the {thing}. "{reply}"',
    ],
    "question": [
        "Did the {ship} bring {cargo}?",
        "Who left the {thing} on the quay?",
        "How far is it to {place}?",
        "Will the {quarter} wind hold until {hour}?",
        "Why is the {thing} {state}?",
    ],
    "answer": [
        "Not before {hour}.",
        "Ask {person}, who {mended} it.",
        "{Count} days, if the sea is {sea}.",
        "Only {cargo}, and the {thing} is {state}.",
        "Yes; {opinion}.",
    ],
    "reply": [
        "Then we wait!",
        "I thought so: {opinion}.",
        "It {held} the last time.",
        "{Count} of them? That is too many.",
        "Let us ask {person} at {hour}.",
    ],
    "opinion": [
        "{cargo} will be dear this year",
        "no harbour is as quiet as {place}",
        "a {quarter} wind never lasts",
        "the {ship} sails better than the {ship}",
        "whoever mends a {thing} should test it twice",
        "{count} hands are enough for the {ship}",
    ],
    "closing": [
        "Lamp lit at {hour}.",
        "All boats in; lamp lit at {hour}.",
        "{Count} boats still out. The lamp stays lit.",
        "Nothing more to tell.",
        "Oil: {number} measures left.",
    ],
    "wind": ["wind", "a breeze", "a gale", "squalls", "light airs"],
    "quarter": ["north", "east", "south", "west", "north-east", "south-west", "north-west"],
    "force": ["steady", "rising towards evening", "gone by noon", "with snow in it", "too strong for the small boats"],
    "sky": ["clear", "grey", "overcast", "full of gulls", "bright", "low cloud"],
    "sea": ["calm", "rough", "grey as slate", "high", "smooth as oil"],
    "glass": ["fell", "rose", "stood still", "rose, then fell"],
    "ship": ["Heron", "Juniper", "Old Margaret", "Quick Anna", "Vesper", "Zephyr", "Kittiwake", "Bluebell", "Fox"],
    "came": ["came in", "put to sea", "ran for shelter", "dropped anchor", "passed the point", "lay off the bar"],
    "cargo": [
        "barley", "coal", "rope and tar", "two crates of glass", "salt fish", "timber", "wool", "lamp oil", "apples",
    ],
    "person": ["Ada", "Bertrand", "the cooper", "Old Yusuf", "Maren", "the pilot", "Ines", "Tobias", "the harbour cat"],
    "mended": ["mended", "cleaned", "looked over", "painted", "took apart", "put back", "measured"],
    "thing": ["winch", "lamp", "mainsail", "anchor chain", "bell", "rudder", "pump", "jetty", "signal mast"],
    "held": ["held", "held until dusk", "broke again", "works as it should", "leaks a little", "made no difference"],
    "waited": ["slept", "counted barrels", "whistled", "wrote letters", "watched the bar", "went for tea"],
    "state": ["broken", "as good as new", "covered in ice", "half full of water", "missing", "in two pieces", "dry"],
    "place": ["Kelmouth", "Port Evers", "Quill Island", "the far shore", "Marrow Bay", "Saint Odile", "Wexing"],
    "count": ["one", "two", "three", "four", "five", "seven", "nine", "eleven"],
}  # fmt: skip


def write(characters: int = CHARACTERS, seed: int = SEED) -> str:
    """The log of as many days as it takes to reach so many characters."""
    # Of all that `random` offers, only random() is promised to give the same on every version of Python.
    draw = random.Random(seed).random
    days: list[str] = []
    length = 0
    while length < characters:
        days.append(_expand("day", draw, len(days) + 1))
        length += len(days[-1])
    return "".join(days)


def _expand(rule: str, draw: Callable[[], float], day: int) -> str:
    """One phrase of the rule, its own {names} expanded. A name with a capital asks for one at the beginning."""
    if rule.lower() == "number":
        return str(int(draw() * 90) + 10)
    if rule == "hour":
        return f"{int(draw() * 18) + 5}:{int(draw() * 12) * 5:02d}"
    phrases = RULES[rule.lower()]
    phrase = phrases[int(draw() * len(phrases))]
    if rule == "day":
        phrase = phrase.replace("{number}", str(day), 1)  # days are counted; other numbers are drawn
    text = re.sub(r"\{(\w+)\}", lambda name: _expand(name[1], draw, day), phrase)
    return text[0].upper() + text[1:] if rule[0].isupper() else text


if __name__ == "__main__":
    sys.stdout.write(write())
