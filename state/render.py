# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""How a context stands in a prompt: each section within its budget, the same bytes whenever it is rendered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from xr_ai_conversation.state.context import Entry, Exchange, Section, Summary, Update
from xr_ai_conversation.state.text import OMISSION, clip, quote, quote_within, size
from xr_ai_conversation.state.times import instant, shown, stamp

SEPARATOR = "\n\n"
"""Stands between two blocks of a prompt; each block is measured with one."""


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """One rendered piece of what is remembered of a participant."""

    text: str
    """As it stands in the prompt."""
    time: datetime
    """Time of its newest content, with its zone."""


@dataclass(frozen=True, slots=True)
class SectionView:
    """What a prompt shows of one section; all figures are UTF-8 bytes as rendered."""

    summary: ContextBlock | None
    entries: tuple[ContextBlock, ...]
    """The uncompacted entries shown, oldest first."""
    left_out: int
    """How many of the oldest uncompacted entries are not shown."""
    cut: tuple[str, ...]
    """Ids of the shown entries that are cut."""

    @property
    def clipped(self) -> int:
        """Return how many of the shown entries are cut."""
        return len(self.cut)

    @property
    def size(self) -> int:
        """Return the bytes that the section takes in a prompt."""
        return sum(block_size(block.text) for block in (self.summary, *self.entries) if block)


def block_size(text: str) -> int:
    """Return the bytes that a block takes in a prompt, its separator included."""
    return size(text) + len(SEPARATOR)


def render_summary(summary: Summary, topic: str | None, limit: int | None = None) -> str:
    """Render what stands for compacted entries, with the span that it covers.

    Args:
        summary: A summary of the section.
        topic: The incremental topic that it is of; None is the dialogue.
        limit: The most bytes of the result; None is as many as it takes.
    """
    about = "the earlier conversation" if topic is None else f'earlier updates on "{topic}"'
    heading = f"Summary of {about}, {shown(summary['start'])} to {shown(summary['end'])}:"
    return _record(heading, (("summary", summary["text"]),), limit)


def render_entry(entry: Entry, topic: str | None, limit: int | None = None) -> str:
    """Render an uncompacted exchange or update with its time.

    Args:
        entry: An entry of the section.
        topic: The incremental topic that it was published on; None is the dialogue.
        limit: The most bytes of the result; None is as many as it takes.
    """
    if "request" in entry:
        heading = f"Exchange at {shown(entry['time'])}{', interrupted' if entry.get('interrupted') else ''}:"
        said = (("assistant", entry["response"]),) if entry["response"] else ()
        return _record(heading, (("user", entry["request"]), *said), limit)
    return _record(f'Update on "{topic}" at {shown(entry["time"])}:', (("update", entry["text"]),), limit)


def render_state(update: Update, topic: str, limit: int | None = None) -> str:
    """Render the current state of a summary topic, in at most `limit` bytes."""
    return _record(f'State of "{topic}" at {shown(update["time"])}:', (("state", update["text"]),), limit)


def _record(heading: str, texts: tuple[tuple[str, str], ...], limit: int | None) -> str:
    if limit is not None:
        texts = tuple((label, clip(text, limit)) for label, text in texts)  # the rest is not quoted
    quoted = [quote(label, text) for label, text in texts]
    record = "\n".join((heading, *quoted))
    if limit is None or size(record) <= limit:
        return record
    shares = _shares([size(text) for text in quoted], limit - size(heading) - len(texts))
    cut = [quote_within(label, text, share) for (label, text), share in zip(texts, shares, strict=True)]
    return "\n".join((heading, *cut))


def _shares(sizes: list[int], room: int) -> list[int]:
    """Share room out so that a text of less than its equal share leaves the rest to the other."""
    if len(sizes) == 1:
        return [room]
    first = min(sizes[0], max(room // 2, room - sizes[1]))
    return [first, room - first]


def smallest_budget(topic: str | None) -> int:
    """Return the least budget of a section that can always hold a summary and an entry, each cut if need be."""
    time = stamp(datetime.min.replace(tzinfo=_WIDEST_ZONE))
    cut = OMISSION * 2
    summary = Summary(id="", text=cut, start=time, end=time, covers=0)
    exchange = Exchange(id="", time=time, request=cut, response=cut, interrupted=True)
    entry: Entry = exchange if topic is None else Update(id="", time=time, text=cut)
    return 2 * max(block_size(render_summary(summary, topic)), block_size(render_entry(entry, topic)))


_WIDEST_ZONE = datetime.strptime("-23:59", "%z").tzinfo


def view(found: Section, topic: str | None, budget: int) -> SectionView:
    """Decide what a prompt shows of a section.

    All of it, if it is within its budget. Else older entries of more than half of the budget keep their start
    and end, and the oldest are left out in whole steps of a quarter of the budget, so that the cut, and with
    it the prompt before the newest entry, stays as it is while the section goes on growing; the newest entry is
    always kept, cut only if it does not fit alone. A function of what is stored, and of nothing else.

    Args:
        found: The section.
        topic: The incremental topic; None is the dialogue.
        budget: The most bytes that the section may take.
    """
    summary, head = found["summary"], None
    if summary:
        text = render_summary(summary, topic, budget // 2 - len(SEPARATOR))
        head = ContextBlock(text, instant(summary["end"]))
    room = budget - (block_size(head.text) if head else 0)
    texts = [render_entry(entry, topic, measure(budget)) for entry in found["entries"]]
    sizes = [block_size(text) for text in texts]
    clipped: set[int] = set()
    if sum(sizes) > room:
        for number, entry in enumerate(found["entries"]):
            limit = room if number == len(texts) - 1 else budget // 2
            if sizes[number] > limit:
                texts[number] = render_entry(entry, topic, limit - len(SEPARATOR))
                sizes[number] = block_size(texts[number])
                clipped.add(number)
    first = _first_shown(sizes, room, max(1, budget // 4))
    blocks = tuple(
        ContextBlock(text, instant(entry["time"]))
        for text, entry in zip(texts[first:], found["entries"][first:], strict=True)
    )
    cut = tuple(entry["id"] for number, entry in enumerate(found["entries"]) if number in clipped)
    return SectionView(head, blocks, left_out=first, cut=cut[sum(number < first for number in clipped) :])


def measure(budget: int) -> int:
    """Return the limit with which an entry is rendered to be measured: what exceeds it, exceeds the budget too."""
    return 2 * budget + 1_024


def _first_shown(sizes: list[int], room: int, step: int) -> int:
    over = sum(sizes) - room
    if over <= 0:
        return 0
    wanted = -(-over // step) * step
    first = 0
    while wanted > 0 and first < len(sizes) - 1:
        wanted -= sizes[first]
        first += 1
    return first


__all__ = [
    "SEPARATOR",
    "ContextBlock",
    "SectionView",
    "block_size",
    "measure",
    "render_entry",
    "render_state",
    "render_summary",
    "smallest_budget",
    "view",
]
