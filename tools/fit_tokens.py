"""Fits the table of the token estimate, src/dragoman/tokens/table.json, to what the tokenizer says of many texts.

python tools/fit_tokens.py   reads the texts of this machine (tools/token_corpus.py); takes some minutes

A text falls into pieces (words with the space before them, three digits, runs of signs, white space), as the tokenizer
itself cuts it. What is fitted is how many tokens start at each character of a piece, given the character before and
the one after it: the mean over all pieces of the corpus. Rare triples share the mean of their pair, rare pairs that of
their character, rare characters that of their block. Pieces of the corpus for which the sum errs most, weighted by how
often they occur in it and in the vocabulary, are listed with their true number. Two thirds of the samples are fitted
to, the others are the judge; what they say is written to tests/data/tokens/wide.json.
"""

from __future__ import annotations

import json
import statistics
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.tokens.estimate import Estimator  # noqa: E402 - the paths above come first
from dragoman.tokens.table import TokenTable, read_table  # noqa: E402 - the paths above come first
from tools.token_corpus import kinds  # noqa: E402 - the paths above come first

# The package has no types that a checker could read.
openai = import_module("rs_bpe.bpe").openai

TABLE = ROOT / "src/dragoman/tokens/table.json"
WIDE = ROOT / "tests/data/tokens/wide.json"
PIECES, TRIPLES, PAIRS, CHARACTERS = 25_000, 8000, 3000, 5000
ROUNDS = 2
# Tokens of the vocabulary are numbered by rank: one counts as if it were found so often, divided by its rank.
VOCABULARY, WEIGHT = 199_998, 2_000_000
# The share of that by which the means are moved; with more of it rare words seem cheaper than they are.
SHARE = 0.02
# What stands in for rare contexts is the mean of rare contexts: none counts for more than this.
RARE = 40
# All is lifted by so much, because too few is worse than too many: agents compact by it.
LIFT = 1.015
# Values are kept as whole twentieths of a token.
UNIT = 20

Means = dict[str, float]
Sums = dict[str, list[float]]


def letter_classes() -> dict[str, str]:
    """The characters of each class beyond ASCII, as ranges of a regular expression."""

    def ranges(*categories: str) -> str:
        spans: list[list[int]] = []
        for code in range(0x80, 0x10000):
            if unicodedata.category(chr(code)) in categories:
                if spans and spans[-1][1] == code - 1:
                    spans[-1][1] = code
                else:
                    spans.append([code, code])
        return "".join(chr(low) if low == high else f"{chr(low)}-{chr(high)}" for low, high in spans)

    return {
        "upper": ranges("Lu", "Lt"),
        "lower": ranges("Ll"),
        "other": ranges("Lm", "Lo", "Mn", "Mc", "Me"),
        "digits": ranges("Nd", "Nl", "No"),
    }


def vocabulary(pieces: Callable[[str], list[str]]) -> dict[str, int]:
    """The words of the vocabulary, as often as their rank suggests: documentation lacks the words of daily life."""
    inner = openai.o200k_base().bpe()
    found = {}
    for token in range(256, VOCABULARY):
        try:
            text = inner.decode_tokens([token]).decode()
        except UnicodeDecodeError:
            # A piece of a character is no word.
            continue
        if pieces(text) == [text]:
            found[text] = max(1, WEIGHT // token)
    return found


def block(character: str) -> str:
    return str(ord(character) >> 8)


class Fit:
    """The pieces of a corpus with the starts of their tokens, and the means that follow."""

    def __init__(self, counts: Counter[str], words: Mapping[str, int]) -> None:
        tokenizer = openai.o200k_base()
        inner = tokenizer.bpe()
        lengths: dict[int, int] = {}
        self.found = counts
        self.wanted = counts + Counter(words)
        self.weights = {piece: many + SHARE * words.get(piece, 0) for piece, many in counts.items()}
        self.weights.update((piece, SHARE * many) for piece, many in words.items() if piece not in counts)
        self.starts: dict[str, list[int]] = {}
        for piece in self.wanted:
            owners = [index for index, character in enumerate(piece) for _ in character.encode()]
            starts, at = [0] * len(piece), 0
            for token in tokenizer.encode(piece):
                if token not in lengths:
                    lengths[token] = len(inner.decode_tokens([token]))
                starts[owners[at]] += 1
                at += lengths[token]
            self.starts[piece] = starts

    def tables(self, listed: Collection[str]) -> dict[str, dict[str, int]]:
        """All tables but the listed pieces, fitted to the pieces that are not listed."""
        inner = _empty()
        first = _empty()
        for piece, weight in self.weights.items():
            if piece in listed:
                continue
            starts = self.starts[piece]
            _add(first[piece[0]], weight * starts[0], weight)
            for index in range(1, len(piece)):
                _add(inner[piece[index - 1 : index + 2]], weight * starts[index], weight)
        characters, pairs = _chosen(inner)
        triples: Collection[str] = ()
        for _ in range(2):
            triples = _most(inner, _stand_in(inner, triples, pairs, characters), TRIPLES)
        of_pairs, of_characters, of_blocks = _shared(inner, triples, pairs, characters)
        firsts = {key: _whole(_mean(sums)) for key, sums in first.items() if sums[1] >= 5}
        first_blocks: dict[str, list[float]] = defaultdict(list)
        for key, sums in first.items():
            first_blocks[block(key)].append(_mean(sums))
        return {
            "triples": {key: _whole(_mean(inner[key])) for key in triples},
            "pairs": {key: _whole(_mean(of_pairs[key])) for key in pairs if key in of_pairs},
            "characters": {key: _whole(_mean(of_characters[key])) for key in characters if key in of_characters},
            "blocks": {key: _whole(_mean(sums)) for key, sums in of_blocks.items()},
            "firsts": {key: value for key, value in firsts.items() if value != UNIT},
            "first_blocks": {key: _whole(statistics.mean(means)) for key, means in first_blocks.items()},
        }

    def worst(self, estimator: Estimator) -> dict[str, int]:
        """The pieces that cost most if they are not listed, with their true numbers."""

        def cost(piece: str) -> float:
            missed = abs(UNIT * sum(self.starts[piece]) - estimator.score(piece))
            return -missed * float(self.wanted[piece] ** 0.9)

        # Only words of the texts themselves: the vocabulary is not ours to hand on, and much of it is nobody's to read.
        short = [piece for piece in self.found if len(piece) <= 24]
        return {piece: UNIT * sum(self.starts[piece]) for piece in sorted(short, key=cost)[:PIECES]}


def _empty() -> Sums:
    return defaultdict(lambda: [0.0, 0.0])


def _add(sums: list[float], starts: float, weight: float) -> None:
    sums[0] += starts
    sums[1] += weight


def _mean(sums: list[float] | None) -> float:
    return sums[0] / sums[1] if sums else 1.0


def _whole(mean: float) -> int:
    return round(mean * UNIT)


def _most(sums: Sums, instead: Callable[[str], float], many: int) -> list[str]:
    """The keys whose mean differs most from what would stand in for it."""

    def gain(key: str) -> float:
        return float(-(sums[key][1] ** 0.75) * abs(_mean(sums[key]) - instead(key)))

    return sorted((key for key in sums if sums[key][1] >= 3), key=gain)[:many]


def _chosen(inner: Sums) -> tuple[list[str], list[str]]:
    """The characters and the pairs that get a mean of their own."""
    of_pairs, of_characters, of_blocks = _shared(inner, (), (), ())
    characters = _most(of_characters, lambda key: _mean(of_blocks.get(block(key))), CHARACTERS)
    return characters, _most(of_pairs, lambda key: _mean(of_characters.get(key[-1])), PAIRS)


def _stand_in(
    inner: Sums, triples: Collection[str], pairs: Collection[str], characters: Collection[str]
) -> Callable[[str], float]:
    """What a triple costs that has no entry of its own."""
    of_pairs, of_characters, _ = _shared(inner, triples, pairs, characters)
    known = frozenset(pairs)
    return lambda key: _mean(of_pairs.get(key[:2]) if key[:2] in known else of_characters.get(key[1]))


def _shared(
    inner: Sums, triples: Iterable[str], pairs: Iterable[str], characters: Iterable[str]
) -> tuple[Sums, Sums, Sums]:
    """The means of everything that has no entry of its own: by pair, by character and by block."""
    listed, by_pair, by_character = frozenset(triples), frozenset(pairs), frozenset(characters)
    found: tuple[Sums, Sums, Sums] = (_empty(), _empty(), _empty())
    for key, (starts, weight) in inner.items():
        if key in listed:
            continue
        share = min(1.0, RARE / weight)
        _add(found[0][key[:2]], starts * share, weight * share)
        if key[:2] not in by_pair:
            _add(found[1][key[1]], starts * share, weight * share)
    # Each character counts once: those that are not listed are the rare ones, which no text has many of.
    for key, sums in found[1].items():
        if key not in by_character:
            _add(found[2][block(key)], _mean(sums), 1.0)
    return found


def written(tables: dict[str, dict[str, int]], classes: dict[str, str]) -> str:
    """The table as JSON: keys of the same value together, a line for each value."""
    lines = [f'"unit": {UNIT}', f'"lift": {LIFT}', f'"classes": {json.dumps(classes)}']
    for name, table in sorted(tables.items()):
        groups: dict[int, list[str]] = defaultdict(list)
        for key, value in table.items():
            groups[value].append(key)
        rows = ",\n".join(
            f'"{value}": {json.dumps(sorted(keys), ensure_ascii=False, separators=(",", ":"))}'
            for value, keys in sorted(groups.items())
        )
        lines.append(f'"{name}": {{\n{rows}\n}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def judged(estimator: Estimator, samples: Iterable[tuple[str, str]]) -> dict[str, dict[str, float]]:
    """What the samples that were not fitted to say, by kind."""
    tokenizer = openai.o200k_base()
    errors: dict[str, list[float]] = defaultdict(list)
    for kind, text in samples:
        errors[kind].append(estimator.count([text]) / tokenizer.count(text) - 1)
    return {
        kind: {
            "samples": len(found),
            "median": round(statistics.median(found), 3),
            "lowest": round(min(found), 3),
            "highest": round(max(found), 3),
            "middle": round(statistics.median(map(abs, found)), 3),
        }
        for kind, found in sorted(errors.items())
    }


def main() -> None:
    """Fit, write the table and what its judge says."""
    fitted: list[tuple[str, str]] = []
    held: list[tuple[str, str]] = []
    for kind, samples in kinds().items():
        for index, text in enumerate(samples):
            (held if index % 3 == 2 else fitted).append((kind, text))
    sys.stdout.write(f"{len(fitted)} samples to fit to, {len(held)} to judge by\n")
    classes = letter_classes()
    empty: dict[str, dict[str, int]] = {
        name: {} for name in TokenTable.__struct_fields__ if name not in ("unit", "lift", "classes")
    }
    pieces = Estimator(read_table(written(empty, classes).encode())).pieces
    counts: Counter[str] = Counter()
    for _, text in fitted:
        counts.update(pieces(text))
    fit = Fit(counts, vocabulary(pieces))
    listed: dict[str, int] = {}
    for _ in range(ROUNDS):
        tables = fit.tables(listed)
        listed = fit.worst(Estimator(read_table(written({**empty, **tables}, classes).encode())))
    text = written({**fit.tables(listed), "pieces": listed}, classes)
    TABLE.write_text(text, encoding="utf-8")
    wide = judged(Estimator(read_table(text.encode())), held)
    WIDE.write_text(json.dumps(wide, indent=1) + "\n", encoding="utf-8")
    lowest = min(wide, key=lambda kind: wide[kind]["lowest"])
    sys.stdout.write(f"lowest: {lowest} {wide[lowest]}\n")


if __name__ == "__main__":
    main()
