# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The commands and their options."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xr_ai_conversation.cli.database import Place, default_path, forget, look_back, look_up
from xr_ai_conversation.cli.errors import Failure, explained
from xr_ai_conversation.cli.screen import Notices, is_terminal, unechoed
from xr_ai_conversation.cli.settings import Endpoint, Settings, Topic, check_participant, topic_of

if TYPE_CHECKING:
    from rich.console import Console

    from xr_ai_conversation.graph.history import Kept

_F = TypeVar("_F", bound=Callable[..., Any])


def _database(_context: click.Context, _option: click.Parameter, given: str | None) -> Place:
    if given and given.startswith(("postgresql://", "postgres://")):
        return Place(given)
    return Place((Path(given) if given else default_path()).absolute())


def _database_there(context: click.Context, option: click.Parameter, given: str | None) -> Place:
    place = _database(context, option, given)
    if given and not place.exists():
        raise click.BadParameter(f"there is no file {given!r}.")
    return place


def _topics(_context: click.Context, _option: click.Parameter, given: Sequence[str]) -> tuple[Topic, ...]:
    return tuple(map(topic_of, given))


def _options(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    def decorate(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _whose(database: Callable[[click.Context, click.Parameter, str | None], Place]) -> Callable[[_F], _F]:
    return _options(
        click.option("--participant", default="me", show_default=True, help="Whose context it is."),
        click.option(
            "--db",
            "database",
            metavar="FILE|URL",
            envvar="XR_AI_CONVERSATION_DB",
            show_envvar=True,
            callback=database,
            help="SQLite file, or postgresql:// address, that keeps the contexts; by default a file in this user's "
            "data directory.",
        ),
    )


_kept = _options(
    click.option(
        "--topic",
        "topics",
        metavar="NAME[:summary]",
        multiple=True,
        callback=_topics,
        help="Topic that notes are published on: they add up, or with :summary each replaces the last. "
        "May be given several times; topics that are stored already need not be given. "
        'If there is none of either, it is "notes".',
    ),
    click.option(
        "--dialogue-budget",
        metavar="BYTES",
        type=int,
        default=8_000,
        show_default=True,
        help="What the dialogue may take in a prompt.",
    ),
    click.option(
        "--topic-budget",
        metavar="BYTES",
        type=int,
        default=4_000,
        show_default=True,
        help="What each topic may take in a prompt.",
    ),
)
_instructions = click.option(
    "--instructions", metavar="TEXT", default="", help="What the model is told beside the system prompt."
)


@click.group(
    "xr-ai-conversation",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="xr-ai-conversation", message="%(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Talk with a model that remembers, look at what it remembers, and forget it."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@commands.command()
@_whose(_database)
@click.option(
    "--model", metavar="NAME", help="Model of an OpenAI-compatible server, instead of the embedded one."
)
@click.option("--base-url", metavar="URL", help="Where that server's API begins; by default OpenAI's.")
@_instructions
@_kept
def chat(model: str | None, base_url: str | None, **options: Any) -> None:  # Any: as click parsed them
    """Talk with the model; what is said is remembered.

    Without --model and --base-url the embedded model answers, which needs no network. With one of them
    OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL are read too.

    If standard input is no terminal, each of its lines is a request, and only the answers are written to
    standard output, each when it is complete. There the first error ends the session.

    The line "/note TOPIC TEXT" publishes an update on a topic, "/quit" leaves. TOPIC may be left out if there
    is only one whose notes add up.
    """
    from rich.console import Console

    settings = Settings(**options)
    endpoint = Endpoint(model, base_url) if model or base_url else None
    console = Console(stderr=True, highlight=False)
    notices = Notices(console)
    logging.getLogger().addHandler(notices)
    try:
        with explained(settings.database):
            asyncio.run(_chat(settings, endpoint, console, notices))
    finally:
        logging.getLogger().removeHandler(notices)


@commands.command()
@_whose(_database_there)
@_kept
def show(**options: Any) -> None:  # Any: as click parsed them
    """Show what is remembered: each section against its budget, what is summary and what verbatim."""
    from rich.console import Console

    from xr_ai_conversation.cli.pictures import show_context
    from xr_ai_conversation.state.context import empty

    settings = Settings(**options)
    settings.check()
    with explained(settings.database):
        context = asyncio.run(look_up(settings.database, settings.participant))
    budgets = settings.budgets(context)
    if context == empty():
        click.echo(f"Nothing is stored of {settings.participant!r} in {settings.database}.")
        return
    console = Console(highlight=False)
    console.print(f"{settings.participant}, stored in {settings.database}\n", style="dim", markup=False)
    show_context(console, context, budgets)


@commands.command()
@_whose(_database_there)
@_instructions
@_kept
@click.argument("request")
def prompt(request: str, **options: Any) -> None:  # Any: as click parsed them
    """Print the three messages that REQUEST would send now."""
    from rich.console import Console

    from xr_ai_conversation.cli.pictures import show_messages
    from xr_ai_conversation.graph.build import system_clock
    from xr_ai_conversation.graph.system import system_text
    from xr_ai_conversation.nodes.answer import answer_messages
    from xr_ai_conversation.state.prompt import prompt_view
    from xr_ai_conversation.state.text import clean, visible

    settings = Settings(**options)
    settings.check()
    if not visible(request):
        raise click.UsageError("REQUEST must not be blank.")
    with explained(settings.database):
        context = asyncio.run(look_up(settings.database, settings.participant))
    seen = prompt_view(context, settings.budgets(context))
    messages = answer_messages(system_text(None, settings.instructions), seen, clean(request), system_clock())
    show_messages(Console(highlight=False), messages)


@commands.command()
@_whose(_database_there)
@_instructions
@_kept
@click.option(
    "--turn",
    metavar="ID",
    default="-1",
    show_default=True,
    help="Id of the turn or of its exchange, as `history` lists it; -1 is the newest exchange, -2 the one before.",
)
def explain(turn: str, **options: Any) -> None:  # Any: as click parsed them
    """Print what an answer of the past was made from: what each section showed and left out, and the three messages.

    Instructions are not stored: give those of the time. Give topics and budgets as they were then, too; where they
    were others it is said that what is shown is not what was sent.
    """
    from rich.console import Console

    from xr_ai_conversation.cli.past import show_explanation
    from xr_ai_conversation.graph.history import explanation
    from xr_ai_conversation.graph.system import system_text

    settings = Settings(**options)
    checkpoints = _look_back(settings)
    if not checkpoints:
        raise Failure(f"Nothing is stored of {settings.participant!r} in {settings.database}.")
    with explained(settings.database):
        told = explanation(
            checkpoints,
            int(turn) if re.fullmatch("-[1-9][0-9]*", turn) else turn,
            system_text(None, settings.instructions),
            settings.budgets(checkpoints[-1].context),
            participant_id=settings.participant,
        )
    show_explanation(Console(highlight=False), told)
    if not told.exact:
        click.echo("This is not what was sent: topics, budgets or the version were others then.", err=True)


@commands.command()
@_whose(_database_there)
@_kept
@click.option(
    "--plot",
    metavar="FILE.png",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the bytes of each section over the session too, with its compactions.",
)
def history(plot: Path | None, **options: Any) -> None:  # Any: as click parsed them
    """Print a line for each commit that is kept: when, by which node, the bytes of each section, what changed."""
    from rich.console import Console

    from xr_ai_conversation.cli.past import show_history
    from xr_ai_conversation.graph.history import commits

    settings = Settings(**options)
    checkpoints = _look_back(settings)
    budgets = settings.budgets(checkpoints[-1].context if checkpoints else None)
    found = commits(checkpoints, budgets)
    if not found:
        click.echo(f"Nothing is stored of {settings.participant!r} in {settings.database}.")
        return
    show_history(Console(highlight=False), found)
    if plot:
        from xr_ai_conversation.cli.plot import draw

        draw(plot, found, budgets, f"What is remembered of {settings.participant}")
        click.echo(f"Drawn: {plot}", err=True)


def _look_back(settings: Settings) -> list[Kept]:
    settings.check()
    with explained(settings.database):
        return asyncio.run(look_back(settings.database, settings.participant))


@commands.command()
@_whose(_database_there)
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(participant: str, database: Place, yes: bool) -> None:
    """Forget everything of a participant; on a terminal it asks first."""
    check_participant(participant)
    question = f"Forget everything of {participant!r} in {database}?"
    if not yes and is_terminal() and not click.confirm(question, err=True):
        raise Failure("Nothing was forgotten.")
    with explained(database):
        known = asyncio.run(forget(database, participant))
    if known:
        click.echo(f"Everything of {participant!r} is forgotten.")
    else:
        click.echo(f"Nothing is stored of {participant!r} in {database}.")


async def _chat(settings: Settings, endpoint: Endpoint | None, console: Console, notices: Notices) -> None:
    async with AsyncExitStack() as stack:
        with unechoed(), console.status("loading the model"):
            from xr_ai_conversation.cli.session import session

            settings.check()
            model = endpoint.chat_model() if endpoint else None
            mine = await stack.enter_async_context(session(settings, model))
        if is_terminal():
            from xr_ai_conversation.cli import terminal
            from xr_ai_conversation.cli.pictures import remembered

            dialogue = remembered(await mine.context.snapshot(mine.participant))
            for header in (
                (_name(model), f"stored in {_short(settings.database)}"),
                (dialogue, f"topics: {mine.topics}", terminal.KEYS),
            ):
                console.print(" \N{MIDDLE DOT} ".join(header), style="dim", markup=False)
            console.print()
            await terminal.converse(mine, console, notices)
        else:
            from xr_ai_conversation.cli import piped
            from xr_ai_conversation.cli.wrapping import wrapped

            def say(answer: str) -> None:
                click.echo(wrapped(answer))

            piped.wake_on_interrupt()
            await piped.converse(mine, piped.lines(), say, partial(click.echo, err=True))


def _short(place: Place) -> str:
    path, home = place.where, Path.home()
    return (
        f"~/{path.relative_to(home)}" if isinstance(path, Path) and path.is_relative_to(home) else str(place)
    )


def _name(model: object | None) -> str:
    if model is None:
        return "SmolLM2-135M-Instruct (embedded)"
    server = getattr(model, "openai_api_base", None) or "OpenAI"
    return f"{getattr(model, 'model_name', 'a model')} at {server}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit with its code.

    Args:
        arguments: What follows the command's name; None is that of this process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a model may say what the terminal's encoding cannot
    try:
        commands.main(arguments, prog_name="xr-ai-conversation", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"Error: {' '.join(error.format_message().split())}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)


__all__ = ["commands", "main"]
