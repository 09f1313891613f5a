"""Writes docs/token-counting.md: how local counts are made, and how far the estimate is from the tokenizer.

python tools/token_page.py          writes the page
python tools/token_page.py --check  exits with status 1 if the page is not what it would write
python tools/token_page.py --count  asks the tokenizer (extra `tokenizer`) for the true counts of the samples first
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.tokens.estimate import estimator  # noqa: E402 - the paths above come first
from dragoman.tokens.tokenizer import Vocabulary, count_by_tokenizer  # noqa: E402 - the paths above come first

PAGE = ROOT / "docs/token-counting.md"
SAMPLES = ROOT / "tests/data/tokens"
COUNTS = SAMPLES / "counts.json"
WIDE = SAMPLES / "wide.json"

HEAD = """# Token counting

Count the tokens of a request with `/v1/messages/count_tokens` or `/v1/responses/input_tokens`. If the provider can
count (`counts_tokens`), it does. Otherwise the gateway counts and sets the header `x-dragoman-estimate`:

| Header | Counted by |
|---|---|
| none | the provider |
| `tokenizer` | the vocabulary of OpenAI's models, if that extra is installed ([README](../README.md#install)) |
| `calibrated` | a built-in estimate |

Both methods count the request as the provider would get it:

- System text, messages, calls, results and output schemas by their text. IDs, signatures and cache breakpoints
  count 0.
- Tools as the model reads them: as TypeScript for OpenAI's models, as JSON for others, with the provider's additions.
- Images by their size in pixels: by 512-pixel tiles or 32-pixel patches for OpenAI's models, with regard to
  `detail`; by pixels / 750 for Claude. An image that is only a URL counts as a large one.
- Text documents count by their text. A PDF counts 1,500 tokens of text and one image per page.
- Reasoning once: its text, else its encrypted form by size, else its summary.
- A few tokens for the frame of each message, call and result. A count is never 0.

`make docs` generates this page from the samples in `tests/data/tokens` and `src/dragoman/tokens`.

## Families of models

The vocabulary is `o200k_base`; for GPT-4, GPT-3.5 and embeddings it is `cl100k_base`, which the estimate does not
distinguish. Vendors without a published vocabulary are **assumed** to need more tokens for the same text. The
factors are on the high side, because agents compact by this number:

| Models | Tokens for one of `o200k_base` |
|---|---|
| OpenAI | 1 |
| Claude up to 4.6 | 1.2 |
| Claude 4.7 and later, whose tokenizer yields up to a third more | 1.5 |
| others | 1.1 |

## Accuracy of the estimate

Error of the estimate against `o200k_base`; plus means too many. The samples were written for this project and are
not part of the fit. A few constants were chosen with these errors in view, so the samples are not entirely unseen.
For other families, the error is multiplied by the factor above, which was not measured.

| Kind of text | Tokens | Estimate | Error |
|---|---:|---:|---:|
"""

TAIL = """
Median of the errors {middle:.1%}; furthest below {low:+.1%} ({lowest}), furthest above {high:+.1%} ({highest}).

The table is fitted by `tools/fit_tokens.py` to documentation, sources and translations that a machine with Debian
holds, and to made-up data. A third of that is held back: {samples:,} samples of about 3,000 characters in {kinds}
kinds. The median error of the middle kind is {usual:.1%}; furthest from the truth are

| Kind | Samples | Lowest | Median | Highest |
|---|---:|---:|---:|---:|
"""

SPEED = """
## CPU time

CPU time for 10,000 tokens of text, each text for the first time, with CPython 3.11 on a slow virtual machine:

| | English | code | JSON | Chinese | base64 |
|---|---:|---:|---:|---:|---:|
| estimate | {0[0]} ms | {0[1]} ms | {0[2]} ms | {0[3]} ms | {0[4]} ms |
| tokenizer | {1[0]} ms | {1[1]} ms | {1[2]} ms | {1[3]} ms | {1[4]} ms |

The first count loads the table of the estimate ({2} ms) or the tokenizer's vocabulary ({3} ms and 70 MB). A thread
counts large bodies in pieces of 16 KiB, so that other requests do not wait. For texts that are together longer than
1 MiB, the gateway counts a sample of 64 such pieces at even distances. The error of the sample depends on how uniform
the text is.
"""
# Measured by hand, since times differ from machine to machine and the page must not.
TIMES = json.loads((SAMPLES / "times.json").read_text(encoding="utf-8"))


def errors() -> dict[str, tuple[int, int]]:
    """For each sample what the tokenizer and what the estimate says."""
    true = json.loads(COUNTS.read_text(encoding="utf-8"))
    count = estimator().count
    return {
        name: (counts[Vocabulary.O200K.value], count([(SAMPLES / f"{name}.txt").read_text(encoding="utf-8")]))
        for name, counts in sorted(true.items())
    }


def page() -> str:
    """The page as it should be."""
    found = errors()
    off = {name: estimate / true - 1 for name, (true, estimate) in found.items()}
    rows = [
        f"| {name.replace('-', ', ')} | {true:,} | {estimate:,} | {off[name]:+.1%} |\n"
        for name, (true, estimate) in found.items()
    ]
    lowest, highest = min(off, key=off.__getitem__), max(off, key=off.__getitem__)
    middle = statistics.median(map(abs, off.values()))
    wide = json.loads(WIDE.read_text(encoding="utf-8"))
    low = sorted(wide, key=lambda kind: float(wide[kind]["lowest"]))
    high = sorted(wide, key=lambda kind: -float(wide[kind]["highest"]))
    samples = sum(row["samples"] for row in wide.values())
    usual = statistics.median(row["middle"] for row in wide.values())
    tail = TAIL.format(
        middle=middle,
        low=off[lowest],
        lowest=lowest,
        high=off[highest],
        highest=highest,
        samples=samples,
        kinds=len(wide),
        usual=usual,
    )
    tail += "".join(
        f"| {kind} | {wide[kind]['samples']} | {wide[kind]['lowest']:+.1%} | {wide[kind]['median']:+.1%} "
        f"| {wide[kind]['highest']:+.1%} |\n"
        for kind in [*low[:6], *reversed(high[:6])]
    )
    return HEAD + "".join(rows) + tail + SPEED.format(*TIMES)


def count_samples() -> None:
    """Write what the tokenizer says of each sample."""
    counts: dict[str, dict[str, int | None]] = {}
    for path in sorted(SAMPLES.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        counts[path.stem] = {which.value: count_by_tokenizer(which, [text]) for which in Vocabulary}
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is up to date."""
    if "--count" in arguments:
        count_samples()
    if "--check" in arguments:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
