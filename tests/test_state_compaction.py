# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A section is compacted when it is due, oldest first, in requests that fit, each entry exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import (
    FORGERIES,
    at,
    budgets,
    clusters,
    compact,
    contexts,
    dialogue,
    exchange,
    many,
    note,
    situations,
    some,
    summary,
    texts,
    told_nothing,
)

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import (
    SYSTEM_PROMPT,
    CompactionPrompts,
    Job,
    SummaryRequest,
    compaction,
    due,
    next_job,
    takeable,
)
from xr_ai_conversation.state.context import ParticipantContext, load, section
from xr_ai_conversation.state.operations import Compact, fold, record, update
from xr_ai_conversation.state.render import render_entry, render_summary
from xr_ai_conversation.state.reply import Rejection, Reply
from xr_ai_conversation.state.text import OMISSION
from xr_ai_conversation.state.times import instant

Situation = tuple[ParticipantContext, Budgets]

PROMPTS = CompactionPrompts()


def rendered(found: list[Any], topic: str | None) -> int:
    """Return the bytes of entries as a prompt would show them, each with the blank line after it."""
    return sum(len(render_entry(entry, topic).encode()) + 2 for entry in found)


def job_of(context: ParticipantContext, topic: str | None, of: Budgets) -> Job | None:
    """Return the next job up to the last entry that may be taken."""
    may = takeable(section(context, topic), topic)
    return next_job(context, topic, of, may[-1]["id"]) if may else None


def run(
    job: Job, *replies: Reply, prompts: CompactionPrompts = PROMPTS
) -> tuple[list[SummaryRequest], Compact | Rejection]:
    """Run a compaction with the replies of a model; all of them must be asked for."""
    steps = compaction(job, prompts, "s-new")
    requests = [next(steps)]
    for number, reply in enumerate(replies, start=1):
        try:
            requests.append(steps.send(reply))
        except StopIteration as end:
            assert number == len(replies), "a reply was not asked for"
            outcome: Compact | Rejection = end.value
            return requests, outcome
    raise AssertionError("one more reply was asked for")


@some
@given(situations())
def test_a_section_is_due_exactly_when_its_entries_exceed_half_of_its_budget(situation: Situation) -> None:
    context, of = situation
    for topic in of.sections():
        found = section(context, topic)
        over = rendered(found["entries"], topic) > of.of_section(topic) / 2
        assert due(context, topic, of) == (over and bool(takeable(found, topic)))


@pytest.mark.parametrize("topic", [None, "notes"])
def test_a_section_of_exactly_half_of_its_budget_is_not_due_and_one_byte_more_is(topic: str | None) -> None:
    of = Budgets.of(incremental_topics=["notes"], dialogue_bytes=1_000, topic_bytes=1_000)

    def filled(more: int) -> ParticipantContext:
        one, other = (exchange(1), exchange(2)) if topic is None else (note(1), note(2))
        missing = 500 - rendered([one, other], topic) + more
        if topic is None:
            return dialogue(exchange(1, "question" + "x" * missing), exchange(2))
        grown = note(1, "note" + "x" * missing)
        operations = [update(of, grown["id"], grown["time"], topic, grown["text"])]
        return fold(told_nothing(), [*operations, update(of, "n2", at(120), topic, "note")])

    assert not due(filled(0), topic, of)
    assert due(filled(1), topic, of)


def test_the_newest_exchange_alone_is_never_due_and_the_newest_update_is() -> None:
    of = Budgets.of(incremental_topics=["notes"])
    large = dialogue(exchange(1, "q", "x" * 7_000))
    assert not due(large, None, of)
    assert job_of(large, None, of) is None
    assert due(fold(large, [record(exchange(2))]), None, of)
    assert due(fold(told_nothing(), [update(of, "n1", at(0), "notes", "x" * 2_500)]), "notes", of)


def test_chinese_is_due_by_its_bytes() -> None:
    of = Budgets.of()
    assert due(dialogue(exchange(1, "", "漢" * 1_334), exchange(2)), None, of)
    assert not due(dialogue(exchange(1, "", "a" * 1_334), exchange(2)), None, of)


def test_what_is_summarised_does_not_make_a_section_due() -> None:
    of = Budgets.of(dialogue_bytes=1_000)
    context = dialogue(exchange(1), exchange(2))
    context["dialogue"]["summary"] = summary("x" * 250)
    assert not due(context, None, of)


@some
@given(situations() | situations(least=True))
def test_a_request_stays_within_the_compaction_input_budget(situation: Situation) -> None:
    context, of = situation
    for topic in of.sections():
        job = job_of(context, topic, of)
        if job is None:
            continue
        assert len(job.records.encode()) <= of.compaction_input
        assert job.covered
        assert job.limit == of.of_section(topic) // 4
        found = section(context, topic)
        assert list(job.covered) == found["entries"][: len(job.covered)]
        assert job.summary == found["summary"]


@some
@given(situations(most=6))
def test_a_request_takes_as_much_as_fits(situation: Situation) -> None:
    context, of = situation
    for topic in of.sections():
        job = job_of(context, topic, of)
        rest = takeable(section(context, topic), topic)
        if job is None or len(job.covered) == len(rest):
            continue
        following = render_entry(rest[len(job.covered)], topic)
        assert len(job.records.encode()) + 2 + len(following.encode()) + 2 > of.compaction_input


@some
@given(st.data())
def test_successive_requests_cover_every_entry_exactly_once_in_order(data: st.DataObject) -> None:
    of = data.draw(budgets())
    context = data.draw(contexts(of, most=8))
    topic = data.draw(st.sampled_from(of.sections()))
    entries = section(context, topic)["entries"]
    may = takeable(section(context, topic), topic)
    assume(may)
    until = data.draw(st.sampled_from(may))["id"]
    wanted = [entry["id"] for entry in may]
    wanted = wanted[: wanted.index(until) + 1]
    covered: list[str] = []
    while job := next_job(context, topic, of, until):
        _, outcome = run(job, Reply("kept"))
        assert not isinstance(outcome, Rejection)
        covered += outcome["covered"]
        late = f"late-{len(covered)}"  # what arrives meanwhile is not taken
        if topic is None:
            context = fold(context, [record(exchange(0, late, time=entries[-1]["time"]) | {"id": late})])
        else:
            context = fold(context, [update(of, late, entries[-1]["time"], topic, late)])
        context = fold(context, [outcome])
    assert covered == wanted
    left = [entry["id"] for entry in section(context, topic)["entries"] if "late" not in entry["id"]]
    assert left == [entry["id"] for entry in entries][len(wanted) :]
    assert next_job(context, topic, of, until) is None


def test_a_long_backlog_is_sent_whole_and_in_order() -> None:
    of = Budgets.of()
    context = dialogue(*(exchange(number, f"token-{number:02}-", "x" * 950) for number in range(41)))
    sent, jobs = "", 0
    while job := job_of(context, None, of):
        (request, *_), outcome = run(job, Reply(f"Until {job.covered[-1]['id']}."))
        assert not isinstance(outcome, Rejection)
        context, jobs = fold(context, [outcome]), jobs + 1
        sent += request.user
        assert len(request.user) < 12_000 + 1_500
    assert re.findall(r"token-(\d\d)-", sent) == [f"{number:02}" for number in range(40)]
    assert jobs == 4
    assert [entry["id"] for entry in context["dialogue"]["entries"]] == ["x40"]
    assert context["dialogue"]["summary"] is not None
    assert context["dialogue"]["summary"]["covers"] == 40


@some
@given(situations())
def test_the_newest_exchange_is_never_covered(situation: Situation) -> None:
    context, of = situation
    entries = section(context, None)["entries"]
    for entry in entries:
        job = next_job(context, None, of, entry["id"])
        if entry is entries[-1]:
            assert job is None
        else:
            assert job is not None
            assert entries[-1] not in job.covered


def test_nothing_is_asked_for_an_entry_that_is_there_no_more() -> None:
    context = dialogue(exchange(1), exchange(2), exchange(3))
    for until in ("x3", "x9", ""):
        assert next_job(context, None, Budgets.of(), until) is None
    assert next_job(told_nothing(), None, Budgets.of(), "x1") is None


def test_an_entry_too_large_for_a_request_goes_alone_with_start_and_end() -> None:
    of = Budgets.of()
    large = exchange(2, "first question", "begin" + "x" * 30_000 + "finish")
    context = dialogue(exchange(1), large, exchange(3), exchange(4))
    before, alone, after = None, None, None
    for number in range(3):
        job = job_of(context, None, of)
        assert job is not None
        _, outcome = run(job, Reply("Kept."))
        assert not isinstance(outcome, Rejection)
        context = fold(context, [outcome])
        before, alone, after = (job, alone, after) if number == 0 else (before, job, after)
        if number == 1:
            break
    assert before is not None
    assert [entry["id"] for entry in before.covered] == ["x1"]
    assert alone is not None
    assert [entry["id"] for entry in alone.covered] == ["x2"]
    assert OMISSION in alone.records
    assert "user> first question" in alone.records
    assert "assistant> begin" in alone.records
    assert alone.records.endswith("finish")
    rest = job_of(context, None, of)
    assert rest is not None
    assert [entry["id"] for entry in rest.covered] == ["x3"]


@some
@given(situations(), st.text("abc漢 .", min_size=1, max_size=60).filter(str.strip))
def test_an_accepted_reply_becomes_the_summary_with_the_span_and_count_of_all_it_covers(
    situation: Situation, said: str
) -> None:
    context, of = situation
    for topic in of.sections():
        job = job_of(context, topic, of)
        if job is None or len(said.encode()) > job.limit:
            continue
        requests, outcome = run(job, Reply(said))
        assert not isinstance(outcome, Rejection)
        assert len(requests) == 1
        times = [instant(entry["time"]) for entry in job.covered]
        before = section(context, topic)["summary"]
        if before:
            times += [instant(before["start"]), instant(before["end"])]
        made = outcome["summary"]
        assert (instant(made["start"]), instant(made["end"])) == (min(times), max(times))
        assert made["covers"] == len(job.covered) + (before["covers"] if before else 0)
        assert made["text"] == said.strip()
        assert made["id"] == "s-new"
        assert outcome["built_on"] == (before["id"] if before else None)
        assert outcome["covered"] == [entry["id"] for entry in job.covered]
        after = load(fold(context, [outcome]))
        assert section(after, topic)["summary"] == made


def some_job(limit: int = 100, *, topic: str | None = None, previous: bool = False) -> Job:
    """Return a job over two entries, whose summary may have so many bytes."""
    of = Budgets.of(incremental_topics=["notes"], dialogue_bytes=4 * limit, topic_bytes=4 * limit)
    if topic is None:
        context = dialogue(*(exchange(number, "q" * 50, "a" * 50) for number in range(3)))
    else:
        operations = [update(of, f"n{number}", at(number), topic, "u" * 90) for number in range(2)]
        context = fold(told_nothing(), operations)
    if previous:
        section(context, topic)["summary"] = summary("What was before.")
    job = job_of(context, topic, of)
    assert job is not None
    return job


def test_the_span_is_told_by_instants_where_the_zones_differ() -> None:
    first, last = "2026-03-02T01:00:00.000000+09:00", "2026-03-01T20:00:00.000000-05:00"
    context = dialogue(exchange(1, time="2026-03-01T17:00:00.000000+00:00"), exchange(2))
    context["dialogue"]["summary"] = {**summary("Before."), "start": first, "end": last}
    job = job_of(context, None, Budgets.of())
    assert job is not None
    _, outcome = run(job, Reply("Kept."))
    assert not isinstance(outcome, Rejection)
    assert (outcome["summary"]["start"], outcome["summary"]["end"]) == (first, last)


LONG = "Begin. " + "They spoke of lamps. " * 30 + "Finish."


def test_a_summary_over_its_limit_is_sent_once_to_be_shortened() -> None:
    requests, outcome = run(some_job(), Reply(LONG), Reply("They spoke of lamps."))
    assert len(requests) == 2
    assert f"summary> {LONG}" in requests[1].user
    assert PROMPTS.shorten in requests[1].user
    assert not isinstance(outcome, Rejection)
    assert outcome["summary"]["text"] == "They spoke of lamps."


@pytest.mark.parametrize(
    "second",
    [
        Reply("x", finish="length"),
        Reply(""),
        Reply("", finish="error"),
        Reply("<think>hm</think>"),
        Reply("no", refused=True),
    ],
)
def test_a_failed_shortening_leaves_the_start_and_end_of_the_summary(second: Reply) -> None:
    _, outcome = run(some_job(), Reply(LONG), second)
    assert not isinstance(outcome, Rejection)
    text = outcome["summary"]["text"]
    assert len(text.encode()) <= 100
    assert text.startswith("Begin. ")
    assert text.endswith("Finish.")
    assert OMISSION in text


def test_a_shortened_summary_that_is_still_too_long_keeps_its_own_start_and_end() -> None:
    _, outcome = run(some_job(), Reply(LONG), Reply(f"Start{'x' * 200}end"))
    assert not isinstance(outcome, Rejection)
    assert re.fullmatch(r"Startx+ \[\.\.\. omitted \.\.\.\] x+end", outcome["summary"]["text"])
    assert len(outcome["summary"]["text"]) == 100


@many
@given(texts(20) | clusters(80), texts(20), st.integers(80, 300))
def test_a_summary_is_never_over_a_quarter_of_its_budget(first: str, second: str, limit: int) -> None:
    job = some_job(limit)
    steps = compaction(job, PROMPTS, "s-new")
    next(steps)
    try:
        request = steps.send(Reply(first))
        assert len(request.user.encode()) <= job.input_limit + 1_000
        steps.send(Reply(second))
    except StopIteration as end:
        outcome: Compact | Rejection = end.value
    else:
        raise AssertionError("more than one shortening was asked for")
    if not isinstance(outcome, Rejection):
        text = outcome["summary"]["text"]
        assert 0 < len(text.encode()) <= limit


@pytest.mark.parametrize(
    ("reply", "rejection"),
    [
        (Reply(""), Rejection.EMPTY),
        (Reply("\u200b"), Rejection.EMPTY),
        (Reply("<think>They spoke.</think>"), Rejection.REASONING_ONLY),
        (Reply("They spoke", finish="length"), Rejection.CUT_OFF),
        (Reply(LONG, finish="max_tokens"), Rejection.CUT_OFF),
        (Reply("They spoke", finish="content_filter"), Rejection.REFUSED),
        (Reply("They spoke", finish="error"), Rejection.FAILED),
    ],
)
def test_a_reply_that_is_not_taken_changes_nothing_and_is_asked_for_once(
    reply: Reply, rejection: Rejection
) -> None:
    requests, outcome = run(some_job(), reply)
    assert len(requests) == 1
    assert outcome is rejection


def test_a_summary_larger_than_what_it_would_replace_is_not_taken() -> None:
    of = Budgets.of()
    job = job_of(dialogue(exchange(1, "hm", "ok"), exchange(2)), None, of)
    assert job is not None
    replaced = len(job.records.encode())
    _, outcome = run(job, Reply("x" * (replaced + 1)))
    assert outcome is Rejection.LARGER
    _, outcome = run(job, Reply("x" * replaced))
    assert not isinstance(outcome, Rejection)
    _, outcome = run(job, Reply("x" * 2_001), Reply("x" * 2_001))
    assert outcome is Rejection.LARGER


@pytest.mark.parametrize("topic", [None, "notes"])
@pytest.mark.parametrize("previous", [False, True])
def test_a_request_has_the_records_before_the_task_and_the_limit_in_it(
    topic: str | None, previous: bool
) -> None:
    job = some_job(123, topic=topic, previous=previous)
    (request,), _ = run(job, Reply("Kept."))
    assert request.system == SYSTEM_PROMPT
    before, records, task = request.user.partition(job.records)
    assert (before, records) == ("", job.records)
    assert (PROMPTS.dialogue if topic is None else PROMPTS.incremental) in task
    assert "of at most 123 bytes" in task
    assert "plain text" in task
    assert "language of the text" in task
    assert ("Include the earlier summary" in task) == previous
    assert ("summary> What was before." in records) == previous
    if previous:
        assert records.startswith(render_summary(summary("What was before."), topic))


@pytest.mark.parametrize("topic", [None, "notes"])
def test_custom_prompts_get_the_limit_and_the_output_format_too(topic: str | None) -> None:
    prompts = CompactionPrompts(dialogue="Keep {names}.", incremental="Keep %s.", shorten="Less \\1.")
    requests, _ = run(some_job(topic=topic), Reply(LONG), Reply("Kept."), prompts=prompts)
    for request, prompt in zip(
        requests, (prompts.dialogue if topic is None else prompts.incremental, prompts.shorten), strict=True
    ):
        task = request.user.rpartition("End of the text.")[2]
        assert prompt in task
        assert "of at most 100 bytes" in task
        assert "plain text" in task
        assert "language of the text" in task


def test_no_prompt_has_an_example_date() -> None:
    for text in (SYSTEM_PROMPT, PROMPTS.dialogue, PROMPTS.incremental, PROMPTS.shorten):
        assert not re.search(r"\d", text)
    (request, shorten), _ = run(some_job(), Reply(LONG), Reply("Kept."))
    for user in (request.user, shorten.user):
        assert not re.search(r"\d{3,}-|\d:\d|january|monday", user.rpartition("End of the text.")[2].lower())


def test_entries_and_span_are_sent_with_full_dates() -> None:
    of = Budgets.of()
    late = exchange(1, "meeting tomorrow 9:00", time="2026-03-01T23:58:00.000000+09:00")
    context = dialogue(late, exchange(2))
    context["dialogue"]["summary"] = summary("Before.")
    job = job_of(context, None, of)
    assert job is not None
    assert "Exchange at 2026-03-01 23:58:00 +09:00:\nuser> meeting tomorrow 9:00" in job.records
    assert "2026-03-02 11:00:00 +00:00 to 2026-03-02 12:00:00 +00:00:" in job.records


@pytest.mark.parametrize("forged", FORGERIES)
def test_no_line_of_the_records_stands_without_a_label_but_our_headings(forged: str) -> None:
    context = dialogue(exchange(1, f"a\n{forged}", forged), exchange(2))
    context["dialogue"]["summary"] = summary(f"b\r{forged}")
    job = job_of(context, None, Budgets.of())
    assert job is not None
    (request, shorten), _ = run(job, Reply(f"{'x' * 3_000}\n{forged.strip('</>')}"), Reply("Kept."))
    for user, headings in ((request.user, 2), (shorten.user, 0)):
        records = user.rpartition("\n\nEnd of the text.\n\n")[0]
        bare = [
            line
            for line in records.splitlines()
            if line and not re.match(r"(user|assistant|summary)> ", line)
        ]
        assert len(bare) == headings
        assert user.splitlines().count("End of the text.") == 1


def test_a_dialogue_that_ends_in_a_question_is_not_the_last_that_the_model_reads() -> None:
    job = job_of(dialogue(exchange(1, "What is 17*23?", "391"), exchange(2)), None, Budgets.of())
    assert job is not None
    (request,), _ = run(job, Reply("Kept."))
    assert request.user.index("What is 17*23?") < request.user.index(PROMPTS.dialogue)
    assert request.user.endswith("Write the summary only.")


def test_each_of_five_compactions_merges_the_summary_before() -> None:
    of = Budgets.of(dialogue_bytes=1_000)
    context, said = told_nothing(), ""
    for number in range(5):
        context = fold(
            context, [record(exchange(10 * number + one, "q" * 120, "a" * 120)) for one in range(3)]
        )
        job = job_of(context, None, of)
        assert job is not None
        said += f" F{number}"
        requests, outcome = run(job, Reply(said))
        assert number == 0 or f"summary> {said[1:-3]}" in requests[0].user
        assert not isinstance(outcome, Rejection)
        context = fold(context, [outcome])
    assert context["dialogue"]["summary"] is not None
    assert context["dialogue"]["summary"]["text"] == "F0 F1 F2 F3 F4"


def test_an_operation_of_a_running_compaction_keeps_what_comes_meanwhile() -> None:
    of = Budgets.of()
    context = dialogue(*(exchange(number, "q" * 300, "a" * 300) for number in range(10)))
    job = job_of(context, None, of)
    assert job is not None
    _, outcome = run(job, Reply("Kept."))
    assert not isinstance(outcome, Rejection)
    meanwhile = [record(exchange(11)), record(exchange(12))]
    after = fold(fold(context, meanwhile), [outcome])
    assert [entry["id"] for entry in after["dialogue"]["entries"]] == ["x9", "x11", "x12"]
    assert fold(after, [compact(job.covered, "late")]) == after


@pytest.mark.parametrize("name", ["dialogue", "incremental", "shorten"])
@pytest.mark.parametrize("blank", ["", " \n", "\u200b"])
def test_a_blank_prompt_is_refused_by_name(name: str, blank: str) -> None:
    make: Callable[..., CompactionPrompts] = CompactionPrompts
    with pytest.raises(ValueError, match=f"compaction prompt '{name}' must not be blank"):
        make(**{name: blank})


@pytest.mark.parametrize("name", ["dialogue", "incremental", "shorten"])
@pytest.mark.parametrize("wrong", [None, 7, b"x"])
def test_a_prompt_that_is_no_text_is_refused_by_name(name: str, wrong: object) -> None:
    make: Callable[..., CompactionPrompts] = CompactionPrompts
    with pytest.raises(
        TypeError, match=f"compaction prompt '{name}' must be a string, got {type(wrong).__name__}"
    ):
        make(**{name: wrong})
