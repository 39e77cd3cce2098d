# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one participant: plain JSON with a schema version, checked whenever it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NotRequired, TypeAlias, final

from pydantic import AfterValidator, ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from xr_ai_conversation.state.identity import LENGTH
from xr_ai_conversation.state.times import checked

SCHEMA_VERSION: Final = 2

STRICT: Final = ConfigDict(extra="forbid", strict=True)
"""Of what is stored and of what comes from outside: nothing is turned into another type, nothing is left out."""

Time: TypeAlias = Annotated[str, AfterValidator(checked)]
"""A recorded time, as `times.stamp` writes it."""


def _whole(identities: str) -> str:
    if len(identities) % LENGTH:
        raise ValueError(f"it must have a multiple of {LENGTH} characters")
    return identities


@with_config(STRICT)
class Basis(TypedDict):
    """What an answer was made from, so that its request can be made again."""

    checkpoint: str
    """Id of the checkpoint whose context was shown; empty if nothing was stored."""
    told: NotRequired[Time]
    """The current time in the request; absent if it is the recorded time of the exchange."""
    window: NotRequired[str]
    """What the ids of exchanges begin with that were shown too, from a router's history; absent if none were."""
    digest: str
    """`prompt.digest` of the context message."""


@final
@with_config(STRICT)
class Exchange(TypedDict):
    """One completed request and its answer, kept and left together."""

    id: str
    """Unique among all entries that ever were; chosen by whoever makes the entry."""
    time: Time
    request: str
    response: str
    interrupted: NotRequired[bool]
    """The answer was cut short by the participant; absent if it was not."""
    turn_id: NotRequired[str]
    """The id of its turn; absent if there is none, or it is too long to be kept."""
    basis: NotRequired[Basis]
    """Absent if no conversation here gave the answer."""


@final
@with_config(STRICT)
class Update(TypedDict):
    """One text that was published on a topic."""

    id: str
    """Unique among all entries that ever were."""
    time: Time
    text: str


@with_config(STRICT)
class Summary(TypedDict):
    """What stands for the entries of a section that were compacted."""

    id: str
    """Unique among all summaries; a compaction says by it which summary it was built upon."""
    text: str
    start: Time
    """Recorded time of the oldest entry that it covers."""
    end: Time
    """Recorded time of the newest entry that it covers."""
    covers: int
    """How many entries it covers."""


Entry: TypeAlias = Exchange | Update


def _kind(entry: object) -> str:
    """Tell what a stored entry is meant to be, so that a damaged one is reported as that."""
    return "exchange" if isinstance(entry, dict) and ("request" in entry or "response" in entry) else "update"


_Stored: TypeAlias = Annotated[
    Annotated[Exchange, Tag("exchange")] | Annotated[Update, Tag("update")], Discriminator(_kind)
]


@with_config(STRICT)
class Section(TypedDict):
    """The dialogue, or what was published on one incremental topic: a rolling summary, and what came after."""

    summary: Summary | None
    entries: list[_Stored]
    """Uncompacted exchanges or updates in prompt order: by recorded time, equal times in order of commit."""


@with_config(STRICT)
class Archived(TypedDict):
    """Which identities are in the archive and no longer in the context."""

    id: str
    """Id of the archive; an archive only grows."""
    count: int
    """How many of its identities, from its start, are meant; it may hold more."""


@with_config(STRICT)
class Archive(TypedDict):
    """The oldest identities, stored beside the contexts that refer to them, and not again with each."""

    id: str
    """Unique among all archives."""
    identities: Annotated[str, AfterValidator(_whole)]
    """Packed, in the order of recording."""


@with_config(STRICT)
class ParticipantContext(TypedDict):
    """Everything that is remembered of one participant."""

    schema_version: int
    dialogue: Section
    topics: dict[str, Section]
    """The section of each incremental topic that had an update."""
    states: dict[str, Update]
    """The current state of each summary topic that had an update."""
    identities: Annotated[str, AfterValidator(_whole)]
    """Packed identities of all exchanges ever recorded, but those in the archive, in the order of recording."""
    archived: Archived | None


_ADAPTER: TypeAdapter[ParticipantContext] = TypeAdapter(ParticipantContext)
_ARCHIVE: TypeAdapter[Archive] = TypeAdapter(Archive)

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes stored JSON of one schema version, which has no static type any more, to the next version."""

MIGRATIONS: Final[Mapping[int, Migration]] = {1: lambda stored: {**stored, "archived": None}}
"""For each older schema version, what takes it to the next."""


class ContextSchemaError(RuntimeError):
    """A stored context is damaged, or was written by a newer version of this software."""


def empty() -> ParticipantContext:
    """Return the context of a participant of whom nothing is known."""
    return {
        "schema_version": SCHEMA_VERSION,
        "dialogue": {"summary": None, "entries": []},
        "topics": {},
        "states": {},
        "identities": "",
        "archived": None,
    }


def load(
    stored: object, *, version: int = SCHEMA_VERSION, migrations: Mapping[int, Migration] = MIGRATIONS
) -> ParticipantContext:
    """Return the context that was stored, checked and brought to the current schema version.

    Args:
        stored: What a checkpoint held; an empty mapping or None stands for an empty context.
        version: The schema version to bring it to.
        migrations: What takes each older version to the next.

    Raises:
        ContextSchemaError: The stored value is of a newer version, or no valid context. It is left as it is.
    """
    if stored is None or stored == {}:
        return empty()
    found = stored.get("schema_version") if isinstance(stored, dict) else None
    if not isinstance(stored, dict) or type(found) is not int:
        raise ContextSchemaError(f"a stored context must have a schema_version up to {version}, found none")
    if found > version:
        raise ContextSchemaError(
            f"the stored context has schema_version {found}, this software reads up to {version}; update it"
        )
    for older in range(found, version):
        if older not in migrations:
            raise ContextSchemaError(f"the stored context has schema_version {found}, which is not known")
        try:
            stored = {**migrations[older](stored), "schema_version": older + 1}
        except Exception as error:  # noqa: BLE001 - what a migration raises on damaged data may tell the data
            raise ContextSchemaError(
                f"the stored context is damaged, it is no schema_version {older}: {type(error).__name__}"
            ) from None
    try:
        return _ADAPTER.validate_python(stored)
    except ValidationError as error:
        raise ContextSchemaError(f"the stored context is damaged at {first_fault(error)}") from None


def load_archive(stored: object) -> Archive:
    """Return the archive that was stored, checked.

    Raises:
        ContextSchemaError: It is no archive.
    """
    try:
        return _ARCHIVE.validate_python(stored)
    except ValidationError as error:
        raise ContextSchemaError(f"the stored archive is damaged at {first_fault(error)}") from None


def first_fault(error: ValidationError) -> str:
    """Return where the first fault is, and what it is, without the value."""
    found = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in found["loc"])
    return f"{place or 'its top'}: {found['msg']}"


def holds(found: Archive, archived: Archived) -> bool:
    """Tell whether an archive holds the identities that a context has left to it."""
    return found["id"] == archived["id"] and archived["count"] * LENGTH <= len(found["identities"])


def with_archived(context: ParticipantContext, found: Archive) -> ParticipantContext:
    """Return a context with all identities in it.

    Args:
        context: One that has left identities to the archive.
        found: The archive, which holds them.

    Raises:
        ContextSchemaError: It does not.
    """
    archived = context["archived"]
    if archived is None:
        return context
    if not holds(found, archived):
        raise ContextSchemaError(
            f"the stored context needs {archived['count']} identities of its archive, "
            f"found {len(found['identities']) // LENGTH} of {'it' if found['id'] == archived['id'] else 'another'}"
        )
    identities = found["identities"][: archived["count"] * LENGTH] + context["identities"]
    return {**context, "identities": identities, "archived": None}


def section(context: ParticipantContext, topic: str | None) -> Section:
    """Return a section of a context.

    Args:
        context: A participant's context.
        topic: The name of an incremental topic; None is the dialogue.

    Returns:
        The section; an empty one if the topic had no update.
    """
    if topic is None:
        return context["dialogue"]
    return context["topics"].get(topic) or {"summary": None, "entries": []}


__all__ = [
    "MIGRATIONS",
    "SCHEMA_VERSION",
    "STRICT",
    "Archive",
    "Archived",
    "Basis",
    "ContextSchemaError",
    "Entry",
    "Exchange",
    "Migration",
    "ParticipantContext",
    "Section",
    "Summary",
    "Time",
    "Update",
    "empty",
    "first_fault",
    "holds",
    "load",
    "load_archive",
    "section",
    "with_archived",
]
