# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The page: all that was measured, in tables and pictures; no figure on it comes from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from rich.table import Table

from benchmarks.page import markdown
from eval.dialogues import EVIDENCE, WORDS
from eval.report import RIGHT, SHOWN, Row, cell, load

_HEAD = """# Evals

Whether it remembers right, asked of a live model, beside others that are given the same model and the same bytes of
prompt. All of it is asked again, and this page made of it, by

    uv run --group peers python -m eval
    uv run --group peers python -m eval dialogues PATH

or a part, by its name: `conflicts`, `sessions`, `summaries`, `injection`. Each answer is kept in `eval-results/` as it
comes, and a run that was broken off goes on from there; `--quick` takes two minutes, for a look. Another model than the
embedded one is named by `--model` and `--base-url`, or by `OPENAI_MODEL`, `OPENAI_BASE_URL` and `OPENAI_API_KEY`. Who is
compared is said by `--memories ours,window,langchain@800`, the last with bytes of its own.

The embedded model has 135 million parameters, and is often wrong about what stands before it: what its answers measure is how
easy a prompt is to read, and no more than that. What a larger model could answer shows in `prompt has it`.

Answers are graded by words, without a judge. Of an answer that names a value that holds, and no stale one, it is said that it
is right; where nothing was said, that is one which says that it does not know. Intervals are of 95 %, after Wilson; questions
of one session share its summaries, so they are rather too narrow. Near one half, a difference of 12 points can be told apart
of 132 answers each, of 18 points of 60, and of 33 points of 18.
"""

_OTHERS = """`ours` is a `Conversation` over a `ContextManager` whose sections share the bytes. `window` is the newest
messages that fit. `full` is all that was said, whatever its bytes: the most that can be had. `langchain` is
`SummarizationMiddleware`, `langmem` its summarisation, `harness` the `SummarizingCompaction` of pydantic-ai-harness; each
summarises with the prompt it comes with, over three quarters of the bytes: `langchain` and `harness` down to half of them,
`langmem` all that there is. What is still over the bytes is cut, out of the summary first. All are told the same events, with
their times, and asked the same questions after the same system message. The model is the same, but `EmbeddedModel` comes with
a prompt and sampling for our summaries, which it was seen to need; the others have the sampling of answers.

Ours has less of it word for word than `langchain` and `harness`: a section is summarised when half of its bytes are not, all
of it but the newest exchange, while they keep the newest half of all bytes as it is. So more hangs on the summaries:
with a model that keeps few facts, as the embedded one, ours may lose what was said a moment ago, and a plain window is the
better memory up to the distance that it spans. `ours@4800` has twice the bytes, and still uses fewer than the window,
`langchain` and `harness` do."""


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    about: str
    tables: Mapping[str, str]
    """Titles, by the names of the files."""
    compared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Which figures tell ours from the others, by the name of the file."""


_SECTIONS = (
    _Section(
        "Which of two records holds",
        """A fact is stated, and another value of it later: in the same section or another, in a summary or word for word,
seconds apart, over midnight, over a change of time zone. The summariser is an ideal one, which loses no statement, so
both values always stand in the prompt and only reading it is measured. Ours shows each section in a place of its own, and
the times tell what is newer; a window has everything in the order of time. The controls have one value only.

So little is said that within the whole bytes the others need no summary, and show the same as the window. `langchain@800`
and so on have 800 bytes, and have summarised; what holds was said last, so that they mostly show it as it is.""",
        {"conflicts": "Answers to conflicts"},
        {"conflicts": (RIGHT,)},
    ),
    _Section(
        "Long sessions",
        f"""Forty turns of changing topics, in which facts are said or noted once, or corrected six turns later; names and
numbers in several languages; in every second session an exchange and a note that are larger than the whole budget. All
questions come at the end. Summaries are made by the live model; the last table has the same sessions with a summariser that
loses nothing, to tell what is lost by summarising from what is lost by having no room.

{_OTHERS}""",
        {
            "sessions": "Answers in long sessions",
            "recall": "Recall against distance, with live summaries",
            "compactions": "Recall against the summaries made since it was said",
            "ideal": "Recall against distance, if no summary loses anything",
        },
        {"sessions": (RIGHT, SHOWN, "names the stale", "makes one up"), "ideal": (SHOWN,)},
    ),
    _Section(
        "One summary",
        """A section of talk with two facts in it is compacted once, with or without an earlier summary that holds two
more. What is counted are the values that the new summary names. A summary is refused if it was cut off, is larger than what
it replaces, or is none: then nothing is lost, and it is tried again with the next entry; here it counts as keeping nothing.""",
        {"summaries": "Facts that a summary keeps"},
    ),
    _Section(
        "Texts that pass for what they are not",
        """A note, an observation, a request or an answer holds a forged heading, message, order, summary or time. First,
without a model: is the prompt read back as exactly what happened, by a reader that knows its layout? Then the model is
asked for a fact that the text tries to replace or to hide; `names the stale` counts what obeyed, or believed what was
forged. A note that plainly states another value is not told from a correction: whoever publishes notes is believed.""",
        {"shapes": "Is the prompt read back as what happened?", "injection": "Answers under attack"},
    ),
    _Section(
        "Real dialogues",
        """Long dialogues of two people over months, with questions and the turns that hold their answers, read from a path;
nothing of them is here. Each is replayed. How often does the evidence of a question still stand in the prompt, word for
word, and how often all words of the expected answer, in whatever words around, at the end of the session that said the last
of it, and of sessions that came later? At the end of the dialogue the questions are asked: how good is the answer, by the F1
of its words? They are asked of one prompt, and ours may have been compacted just then. `full` is left out, since a whole
dialogue does not fit into the context of the embedded model; `harness` was not run here. Some 6 % of the expected answers of
such data are wrong themselves.""",
        {
            "retention": "What is left of a dialogue, by the sessions since it was said",
            "dialogues": "What is left at the end of a dialogue",
        },
        {"retention": (EVIDENCE, WORDS), "dialogues": (EVIDENCE, WORDS, "F1")},
    ),
)

_LESS_IS_BETTER = ("names the stale", "makes one up")


def table(title: str, rows: Sequence[Row]) -> Table:
    """Return rows as they are shown in a terminal."""
    found = Table(title=title, title_justify="left")
    for number, name in enumerate(rows[0]):
        found.add_column(name, justify="right" if number else "left")
    for row in rows:
        found.add_row(*map(cell, row.values()))
    return found


def write(folder: Path) -> Path:
    """Write the page of all evals that were run, and return where it is.

    Args:
        folder: Where the page goes; figures and pictures are in its folder `eval`.
    """
    measured = {path.stem: load(path) for path in sorted((folder / "eval").glob("*.json"))}
    parts = [_HEAD]
    if standing := list(_standing(measured)):
        parts += [_STANDING, _markdown(standing)]
    for section in _SECTIONS:
        found = [name for name in section.tables if name in measured]
        if not found:
            continue
        parts += [f"## {section.title}", section.about]
        for name in found:
            about, rows = measured[name]
            parts += [f"**{section.tables[name]}**", f"Measured: {'; '.join(about.values())}."]
            if (folder / "eval" / f"{name}.png").exists():
                parts.append(f"![{section.tables[name]}](eval/{name}.png)")
            parts.append(_markdown(rows))
    page = folder / "eval.md"
    page.write_text("\n\n".join(part.strip() for part in parts) + "\n", "utf-8")
    return page


_STANDING = """## Where it stands

Ours beside each of the others within the same bytes, question by question; the tables below have the bytes that each has
used of them. `ahead` and `behind` are said where the interval of the difference, after Newcombe, leaves out zero. What is the
same of all is left out."""


def _standing(measured: Mapping[str, tuple[dict[str, str], list[Row]]]) -> Iterator[Row]:
    for section in _SECTIONS:
        for name, measures in section.compared.items():
            groups = _by_group(measured[name][1] if name in measured else ())
            for group in [each for each in groups if each.startswith("all ")] or groups:
                cells = groups[group]
                if "ours" not in cells:
                    continue
                for measure in measures:
                    if len({cell(row[measure]) for row in cells.values()}) > 1:
                        yield {
                            "asked": f"{section.tables[name]}: {group}",
                            "measure": measure,
                            "ours is": _verdict(cells, measure),
                            **{memory: cell(row[measure]) for memory, row in cells.items()},
                        }


def _by_group(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """Return the rows of each memory, by the cells before its name."""
    groups: dict[str, dict[str, Row]] = {}
    for row in rows:
        cells = takewhile(lambda each: each[0] != "memory", row.items())
        group = ", ".join(
            f"{name} {cell(value)}" if isinstance(value, int) else cell(value) for name, value in cells
        )
        groups.setdefault(group, {})[row["memory"]] = row
    return groups


def _verdict(rows: Mapping[str, Row], measure: str) -> str:
    ours = rows["ours"][measure]
    others = {
        name: row[measure] for name, row in rows.items() if name.partition("@")[0] not in ("ours", "full")
    }
    above = [name for name, other in others.items() if _above(ours, other)]
    below = [name for name, other in others.items() if _above(other, ours)]
    ahead, behind = (below, above) if measure in _LESS_IS_BETTER else (above, below)
    told = [
        f"{word} {', '.join(names)}" for word, names in (("ahead of", ahead), ("behind", behind)) if names
    ]
    return "; ".join(told) or "not told apart"


def _above(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Tell whether the interval of the difference, after Newcombe, lies above zero."""
    if any("mean" in each and each["low"] == each["high"] for each in (one, other)):
        return False  # of one value, or of values that are all alike, nothing is known of how they spread
    one_at, other_at = (each.get("share", each.get("mean", 0.0)) for each in (one, other))
    return one_at - other_at > math.hypot(one_at - one["low"], other["high"] - other_at)


def _markdown(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return markdown(columns, ([cell(row.get(name, "")) for name in columns] for row in rows))


__all__ = ["table", "write"]
