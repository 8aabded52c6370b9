"""The filters of the rooms that show jobs."""

from __future__ import annotations

import pytest

from jobs.lifecycle import Reason
from jobs.scheduler.priority import WeightedFactor
from portal.models import Job
from portal.templatetags.jobs import linked_jobs, why_waiting
from portal.templatetags.starts import points
from tests.jobs.scheduler.worked_examples import table


@pytest.mark.parametrize(
    ("sentence", "linked"),
    [
        ("Job 17 is ahead of it and waits for 2 GPUs on one node.", ["17"]),
        ("3 jobs are ahead of it; the next, job 12, waits for 4 nodes with 8 GPUs each.", ["12"]),
        ("Needs 2 GPUs; 1 is free. Jobs 3, 41 and 5 free 2 GPUs on n1.", ["3", "41", "5"]),
        ("Waits for jobs 17, 18_3 and 13 others to end; 2 of 15 run now.", ["17", "18_3"]),
        ("Jobs 4_0 and 4_12 make room for it unless job 5_1 starts.", ["4_0", "4_12", "5_1"]),
        ("Needs 2 GPUs on one node; none is free.", []),
    ],
)
def test_the_jobs_a_sentence_names_are_links(sentence: str, linked: list[str]) -> None:
    shown = str(linked_jobs(sentence))
    for label in linked:
        shown = shown.replace(f'<a href="/jobs/{label}/">{label}</a>', label, 1)
    assert shown == sentence


def test_the_rest_of_the_sentence_is_text() -> None:
    shown = linked_jobs("<b>Job 17</b> & n1 (draining: 'job 5')")
    assert shown == (
        '&lt;b&gt;Job <a href="/jobs/17/">17</a>&lt;/b&gt; &amp; n1 '
        '(draining: &#x27;job <a href="/jobs/5/">5</a>&#x27;)'
    )


def test_the_docs_say_what_each_reason_of_waiting_stands_for() -> None:
    told = {row["word"]: row["stands for"] for row in table("Why a job waits")}
    sentences = {reason: why_waiting(Job(state="PENDING", reason=reason)) for reason in Reason}
    # Of other reasons no job waits: they have a word and no sentence.
    assert told == {
        reason: words for reason, words in sentences.items() if reason and words != reason
    }


@pytest.mark.parametrize(
    ("brings", "told"),
    [(0.0, "0"), (0.3, "0"), (0.5, "+0.5"), (12.4, "+12"), (1833, "+1,833"), (-3.0, "-3")],
)
def test_the_points_are_those_of_the_sentence(brings: float, told: str) -> None:
    assert points(WeightedFactor("age", brings / 500, 500, brings, "")) == told
