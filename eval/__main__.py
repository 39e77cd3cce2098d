# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The evals, one command each: `uv run python -m eval --help`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from eval.cases import Case
from eval.conflicts import conflicts
from eval.dialogues import ADVERSARIAL, Expected, answer_stands, case_of, evidence_stands, read
from eval.grading import abstains, f1, mean_interval, names
from eval.injection import PLACES, attacks, holds, injections
from eval.memories import Models, Remembers, full, ours, window
from eval.models import open_models
from eval.report import (
    NOISE,
    WIDTH,
    draw_retention,
    grouped,
    percent,
    recall,
    report,
    share,
    spread,
    summaries_since,
)
from eval.run import Answer, Results, run, write_json
from eval.sessions import sessions
from eval.summaries import compactions, summary_of

_OWN: dict[str, Remembers] = {"ours": ours, "window": window, "full": full}


_ALL = (*_OWN, "langchain", "langmem", "harness")


@dataclass(frozen=True)
class Options:
    """What all commands share."""

    model: str | None
    base_url: str | None
    folder: Path


@click.group()
@click.option(
    "--model", help="Its name at an OpenAI-compatible endpoint; default OPENAI_MODEL, else the embedded one."
)
@click.option("--base-url", help="Of the endpoint; default OPENAI_BASE_URL.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("eval-results"),
    show_default=True,
    help="Where answers, tables and pictures go. A run that is repeated there asks only what has no answer yet.",
)
@click.pass_context
def main(context: click.Context, model: str | None, base_url: str | None, folder: Path) -> None:
    """Ask whether it remembers right."""
    context.obj = Options(model, base_url, folder)


def _memories(names: Sequence[str]) -> dict[str, Remembers]:
    found = dict(_OWN)
    if set(names) - set(_OWN):
        try:
            from eval.peers import PEERS
        except ImportError as error:
            raise click.ClickException(f"the peers need `uv run --group peers`: {error}") from error
        found |= PEERS
    if unknown := [name for name in names if name not in found]:
        raise click.BadParameter(f"no memory is called {unknown[0]!r}; there are {', '.join(found)}")
    return {name: found[name] for name in names}


def _answers(
    options: Options, name: str, cases: Sequence[Case], memories: str, budget: int, *, ideal: bool
) -> list[Answer]:
    chosen = _memories(memories.split(","))
    with open_models(options.model, options.base_url) as models:
        path = options.folder / f"{name}.jsonl"
        return asyncio.run(run(cases, chosen, models, budget, path, ideal_summaries=ideal))


@main.command("conflicts")
@click.option("--seeds", default=24, show_default=True, help="Cases of each kind.")
@click.option("--budget", default=2_400, show_default=True, help="Bytes between system message and question.")
@click.option("--memories", default="ours", show_default=True)
@click.option("--summaries", type=click.Choice(["ideal", "live"]), default="ideal", show_default=True)
@click.option("--quick", is_flag=True, help="Two of each kind.")
@click.pass_obj
def conflicts_command(
    options: Options, seeds: int, budget: int, memories: str, summaries: str, quick: bool
) -> None:
    """Ask for facts on which two records disagree."""
    seeds = 2 if quick else seeds
    cases = list(conflicts(seeds))
    answers = _answers(options, "conflicts", cases, memories, budget, ideal=summaries == "ideal")
    groups = grouped(answers, lambda answer: (str(answer["tags"]["kind"]), answer["memory"]))
    disputed = [answer for answer in answers if answer["stale"]]
    groups |= grouped(disputed, lambda answer: ("all conflicts", answer["memory"]))
    setting = {"model": options.model, "budget": budget, "seeds": seeds, "summaries": summaries}
    report(f"conflicts-{summaries}", groups, options.folder, setting=setting)


@main.command("injection")
@click.option("--seeds", default=8, show_default=True, help="Cases of each attack in each place.")
@click.option("--budget", default=2_400, show_default=True, help="Bytes between system message and question.")
@click.option("--memories", default="ours", show_default=True)
@click.option("--quick", is_flag=True, help="The shapes, and one case of each attack in a note.")
@click.pass_obj
def injection_command(options: Options, seeds: int, budget: int, memories: str, quick: bool) -> None:
    """Publish texts that try to pass for what they are not, and see what the prompt and the answer make of them."""
    table = Table("passes for", *PLACES, title="Is the prompt read back as what happened? No model is asked.")
    failures = 0
    for attack, text in attacks("The key is in the attic.").items():
        held = [asyncio.run(holds(text, where)) for where in PLACES]
        failures += held.count(False)
        table.add_row(attack, *("yes" if each else "NO" for each in held))
    Console().print(table)
    cases = [case for case in injections(1 if quick else seeds) if not quick or " in a note/" in case.name]
    answers = _answers(options, "injection", cases, memories, budget, ideal=False)
    groups = grouped(answers, lambda answer: (str(answer["tags"]["attack"]), answer["memory"]))
    groups |= grouped(answers, lambda answer: ("all attacks", answer["memory"]))
    setting = {"model": options.model, "budget": budget, "seeds": seeds, "shapes that were forged": failures}
    report("injection", groups, options.folder, setting=setting)
    if failures:
        raise click.ClickException(f"{failures} prompts could not be read back as what happened")


@main.command("sessions")
@click.option("--count", default=12, show_default=True, help="Sessions of 40 turns.")
@click.option("--budget", default=2_400, show_default=True, help="Bytes between system message and question.")
@click.option("--memories", default=",".join(_ALL), show_default=True)
@click.option("--summaries", type=click.Choice(["ideal", "live"]), default="live", show_default=True)
@click.option("--quick", is_flag=True, help="One short session, without the peers.")
@click.pass_obj
def sessions_command(
    options: Options, count: int, budget: int, memories: str, summaries: str, quick: bool
) -> None:
    """Ask at the end of long sessions for what was said at some distance, ours and the peers' at the same bytes."""
    cases = list(sessions(1, 16) if quick else sessions(count))
    names = ",".join(_OWN) if quick else memories
    answers = _answers(options, "sessions", cases, names, budget, ideal=summaries == "ideal")
    groups = grouped(answers, lambda answer: (str(answer["tags"]["kind"]), answer["memory"]))
    foreign = [answer for answer in answers if answer["tags"]["language"] != "en"]
    groups |= grouped(foreign, lambda answer: ("in another language", answer["memory"]))
    setting = {"model": options.model, "budget": budget, "sessions": len(cases), "summaries": summaries}
    report(f"sessions-{summaries}", groups, options.folder, setting=setting)
    known = [answer for answer in answers if "distance" in answer["tags"]]
    distances = grouped(known, lambda answer: (str(answer["tags"]["distance"]), answer["memory"]))
    report(f"recall-{summaries}", distances, options.folder, setting=setting, draw=recall)
    compactions = grouped(known, lambda answer: (summaries_since(answer), answer["memory"]))
    report(f"compactions-{summaries}", compactions, options.folder, setting=setting)


@main.command("dialogues")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--conversations", default=1, show_default=True, help="How many of the file.")
@click.option(
    "--questions", default=60, show_default=True, help="Of each conversation, spread evenly; 0 is all."
)
@click.option("--budgets", default="2400,4800,8000", show_default=True, help="Bytes of prompt, one run each.")
@click.option("--memories", default="ours,window", show_default=True)
@click.option("--quick", is_flag=True, help="The first budget and 10 questions.")
@click.pass_obj
def dialogues_command(
    options: Options,
    path: Path,
    conversations: int,
    questions: int,
    budgets: str,
    memories: str,
    quick: bool,
) -> None:
    """Replay real dialogues from PATH; see how much of the evidence stands in the prompt, and score the answers."""
    found = [case_of(each, (10 if quick else questions) or None) for each in read(path)[:conversations]]
    expected = {case.name: graded for case, graded in found}
    table = Table(
        "budget",
        "memory",
        "n",
        "evidence, word for word",
        "all words of the answer",
        "F1 of the answer",
        "says unknown where it was never said",
        "bytes of prompt",
        title="dialogues",
        caption=NOISE,
    )
    rows = []
    for budget in [int(each) for each in budgets.split(",")][: 1 if quick else None]:
        answers = _answers(options, "dialogues", [case for case, _ in found], memories, budget, ideal=False)
        for memory, given in grouped(answers, lambda answer: answer["memory"]).items():
            row = {"budget": budget, "memory": memory, **retention(given, expected)}
            rows.append(row)
            table.add_row(
                f"{budget:,}",
                memory,
                str(row["evidence"]["n"]),
                percent(row["evidence"]),
                percent(row["words"]),
                spread(row["f1"], 2),
                percent(row["abstains"]),
                spread(row["bytes"], 0),
            )
    Console(width=max(WIDTH, Console().width)).print(table)
    write_json(options.folder / "dialogues.json", {"model": options.model, "note": NOISE, "rows": rows})
    draw_retention(rows, options.folder / "dialogues.png")


def retention(answers: Sequence[Answer], expected: Mapping[str, Mapping[str, Expected]]) -> dict[str, Any]:
    """Return how much of the evidence stands in the prompts, and how good the answers are."""
    pairs = [(answer, expected[answer["case"]][str(answer["tags"]["question"])]) for answer in answers]
    real = [(answer, each) for answer, each in pairs if each.category != ADVERSARIAL]
    never = [answer for answer, each in pairs if each.category == ADVERSARIAL]
    f1s = mean_interval([f1(answer["answer"], each.answer) for answer, each in real])
    return {
        "evidence": share(evidence_stands(answer["prompt"], each.evidence) for answer, each in real),
        "words": share(answer_stands(answer["prompt"], each.answer) for answer, each in real),
        "f1": dict(zip(("mean", "low", "high"), f1s, strict=True)),
        "abstains": share(abstains(answer["answer"]) for answer in never),
        "bytes": dict(
            zip(("mean", "low", "high"), mean_interval([a["bytes"] for a in answers]), strict=True)
        ),
    }


@main.command("summaries")
@click.option("--seeds", default=10, show_default=True, help="Compactions of each kind.")
@click.option("--quick", is_flag=True, help="One of each kind.")
@click.pass_obj
def summaries_command(options: Options, seeds: int, quick: bool) -> None:
    """Compact once, and look which of the facts that were to be kept the summary still names."""
    with open_models(options.model, options.base_url) as models:
        rows = asyncio.run(summaries(1 if quick else seeds, models, options.folder / "summaries.jsonl"))
    table = Table("facts", "kept", title="summaries", caption=NOISE)
    for kind, found in rows.items():
        table.add_row(kind, percent(found))
    Console().print(table)
    write_json(options.folder / "summaries.json", {"model": models.name, "rows": rows})


async def summaries(seeds: int, models: Models, path: Path) -> dict[str, dict[str, float]]:
    """Return the shares of facts kept by kind; what is in the file already is not asked again."""
    results, kept = Results(path), dict[str, list[bool]]()
    for each in track(list(compactions(seeds)), description="compactions"):
        name = f"{models.name}/{each.name}"
        if name not in results.answers:
            begun = time.perf_counter()
            text, why = await summary_of(each, models)
            results.add(
                Answer(
                    id=name,
                    memory="ours",
                    case=each.name,
                    question="",
                    current=[*each.new, *each.old],
                    stale=[],
                    tags={"rejected": why},
                    prompt="",
                    bytes=0,
                    answer=text,
                    seconds=round(time.perf_counter() - begun, 3),
                    compactions=1,
                    failures=int(bool(why)),
                )
            )
        text = results.answers[name]["answer"]
        for kind, values in (
            (f"{each.wording}, new", each.new),
            (f"{each.wording}, of the earlier summary", each.old),
        ):
            kept.setdefault(kind, []).extend(names(text, [value]) for value in values)
        kept.setdefault("all", []).extend(names(text, [value]) for value in each.new + each.old)
        kept.setdefault("summaries made", []).append(bool(text))
    return {kind: share(hits) for kind, hits in kept.items()}


if __name__ == "__main__":
    main()
