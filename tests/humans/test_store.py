"""The store: written in groups, once, durably; balance under any order; a changed design is refused."""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter
from functools import partial

import pytest
import sqlalchemy as sa

from cosight.errors import InvalidInput
from cosight.humans.database import assign_trials as assign_trials_module
from cosight.humans.database.assign_trials import assign_trials, count_loads, fill_loads, release_idle
from cosight.humans.database.participants import (
    complete_participant,
    create_participant,
    find_by_token,
    read_participant,
    set_paused,
)
from cosight.humans.database.progress import read_progress
from cosight.humans.database.save_answers import Answer, parse_answer, save_answers
from cosight.humans.database.schema import loads, participants, showings
from cosight.humans.database.store import RequestError, SteadyClock, Store
from cosight.humans.database.study_trials import study_trials
from cosight.humans.study.assignment import choose_overlap, make_forms
from cosight.humans.study.design import read_study
from cosight.humans.study.pool import load_pool

from .conftest import Clock, make_study, write_set


class StudyStore:
    """A study and its store, with what a test does all the time."""

    def __init__(self, folder, kind="classify", url=None, **design):
        self.folder = make_study(folder, kind, **design)
        self.study = read_study(self.folder)
        self.pool, self.clock = load_pool(self.study), Clock()
        self.store = Store.open(self.study, url, clock=self.clock)

    def change(self, work, **more):
        now = {} if work is set_paused else {"now": self.clock()}
        return self.store.write_alone(partial(work, study=self.study, **now, **more)).result(10)

    def begin(self, **more):
        token = self.change(create_participant, pool=self.pool, platform={}, **more)
        return self.store.read(lambda connection: find_by_token(connection, self.study, token))

    def draw(self, number):
        return self.change(assign_trials, pool=self.pool, number=number)

    def send(self, number, trial, response="tiger"):
        entry = Answer(number, trial, response, 0.5, None, "key")
        return self.store.write_batched(
            entry, partial(save_answers, study=self.study, pool=self.pool, now=self.clock())
        )

    def answer(self, number, trial, response="tiger"):
        return self.send(number, trial, response).result(10)

    def loads(self, *, simulated=False):
        return self.store.read(partial(count_loads, study=self.study, simulated=simulated))

    def trials(self):
        return study_trials(self.study, self.pool, self.store)


@pytest.fixture
def open_store(tmp_path):
    stores = []

    def make(kind="classify", **design):
        stores.append(StudyStore(tmp_path, kind, **design))
        return stores[-1]

    yield make
    for one in stores:
        one.store.close()


def test_answers_sqlite_is_durable(open_store):
    store = open_store().store
    found = store.read(
        lambda c: [c.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    )
    assert found == ["wal", 2]  # sqlite.org/pragma.html: 2 is FULL


def test_an_answer_is_kept_once_and_the_first_stays(open_store):
    here = open_store()
    number = here.begin()
    first = here.draw(number)[0]
    assert here.answer(number, first.trial, "tiger").stored
    assert not here.answer(number, first.trial, "zebra").stored
    assert here.trials().frame["response"].to_list() == ["tiger"]


def test_the_same_answer_twice_in_one_group_is_kept_once(open_store):
    here = open_store()
    number = here.begin()
    trial = here.draw(number)[0].trial
    gate = threading.Event()
    blocked = here.store.write_alone(lambda connection: gate.wait(10))  # what follows waits and becomes one group
    futures = [here.send(number, trial, response) for response in ("zebra", "tiger", "bear")]
    gate.set()
    assert blocked.result(10)
    assert [future.result(10).stored for future in futures] == [True, False, False]
    assert here.trials().frame["response"].to_list() == ["zebra"]


def test_one_bad_answer_in_a_group_spoils_no_other(open_store):
    here = open_store()
    number, other = here.begin(), here.begin()
    mine = here.draw(number)
    here.draw(other)
    gate = threading.Event()
    here.store.write_alone(lambda connection: gate.wait(10))
    sent = [
        here.send(number, mine[0].trial),
        here.send(number, mine[1].trial, "unicorn"),
        here.send(number, mine[1].trial, {"deep": [[[]]]}),
        here.send(other, mine[2].trial),
        here.send(number, NAME),
        here.send(number, mine[3].trial),
    ]
    gate.set()
    errors = [future.exception(10) for future in sent]
    assert [type(error) for error in errors] == [
        type(None),
        InvalidInput,
        InvalidInput,
        RequestError,
        RequestError,
        type(None),
    ]
    assert errors[3].status == errors[4].status == 404
    assert str(errors[3]) == str(errors[4])  # another's trial is no more known than one that never was
    assert len(here.trials()) == 2


def test_a_failed_change_takes_back_only_itself(open_store):
    here = open_store()

    def half_done(connection):
        connection.execute(sa.update(participants).values(code="broken"))
        raise InvalidInput("no")

    gate = threading.Event()
    here.store.write_alone(lambda connection: gate.wait(10))
    made = here.store.write_alone(
        partial(create_participant, study=here.study, pool=here.pool, now=here.clock(), platform={})
    )
    failed = here.store.write_alone(half_done)
    gate.set()
    assert made.result(10)
    assert isinstance(failed.exception(10), InvalidInput)
    codes = here.store.read(lambda c: c.execute(sa.select(participants.c.code)).scalars().all())
    assert len(codes) == 1
    assert codes != ["broken"]


def test_everything_written_before_closing_is_there(tmp_path):
    here = StudyStore(tmp_path)
    number = here.begin()
    shown = here.draw(number)
    futures = [here.send(number, one.trial) for one in shown]
    here.store.close()
    assert all(future.result(0).stored for future in futures)
    again = Store.open(here.study)
    assert len(study_trials(here.study, here.pool, again)) == len(shown)
    again.close()


def test_every_image_gets_exactly_its_answers_however_people_come_and_go(open_store):
    """Thirty participants, some of whom leave in the middle; whoever is last gets a shorter form."""
    here = open_store(images=4, answers=3, distractors=0, repeats=0)
    left = 0
    for turn in range(60):
        try:
            number = here.begin()
        except RequestError:
            break
        shown = here.draw(number)
        leaves = turn % 3 == 1
        for one in shown[: 1 if leaves else None]:
            here.answer(number, one.trial)
        left += leaves
        here.clock.now += 3700 if leaves else 60
    counts = Counter(here.trials().frame["stimulus"])
    assert set(counts.values()) == {3}
    assert len(counts) == 12
    assert left >= 2


def test_loads_differ_by_one_at_most_while_nobody_leaves(open_store):
    here = open_store(images=4, answers=3, distractors=0, repeats=0)
    for _ in range(5):
        here.draw(here.begin())
        loads = here.loads()
        counts = [loads.get(item.item, 0) for item in here.pool.by_role("test")]
        assert max(counts) - min(counts) <= 1


def test_draws_at_the_same_time_share_out_the_images(open_store):
    """Twelve threads draw at once: no image is promised more often than it is wanted."""
    here = open_store(images=4, answers=4, distractors=0, repeats=0)
    numbers = [here.begin() for _ in range(12)]
    threads = [threading.Thread(target=here.draw, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(here.loads().values()) == {4}


def test_to_ask_again_is_to_get_the_same(open_store):
    here = open_store()
    number = here.begin()
    assert here.draw(number) == here.draw(number)


def test_who_was_away_too_long_loses_what_was_open(open_store):
    here = open_store(images=4, answers=1, distractors=0, repeats=0, idle=30)
    away = here.begin()
    shown = here.draw(away)
    assert here.answer(away, shown[0].trial).stored
    here.clock.now += 29 * 60
    here.change(release_idle)
    assert sum(here.loads().values()) == 4  # half an hour has not passed
    here.clock.now += 2 * 60
    here.change(release_idle)
    assert sum(here.loads().values()) == 1  # what was answered stays
    refused = here.send(away, shown[1].trial).exception(10)
    assert (refused.status, len(here.trials())) == (410, 1)
    assert not here.answer(away, shown[0].trial).stored  # sent again after all: still the first
    people = here.store.read(partial(read_progress, study=here.study, pool=here.pool)).participants
    assert (people.started, people.active, people.released) == (1, 0, 1)


def test_answering_is_being_here(open_store):
    """Somebody who answers every twenty minutes is never away, though they ask for nothing else."""
    here = open_store(images=4, answers=1, distractors=0, repeats=0, idle=30)
    slow = here.begin()
    for one in here.draw(slow):
        here.clock.now += 20 * 60
        here.change(release_idle)
        assert here.answer(slow, one.trial).stored


def test_who_comes_back_gets_what_they_left_open_only_if_it_is_free(open_store):
    here = open_store(images=12, answers=1, distractors=0, repeats=0)
    away = here.begin()
    left = [one.item for one in here.draw(away)]
    here.answer(away, here.draw(away)[0].trial)
    here.clock.now += 3600
    taken = [one.item for one in here.draw(here.begin())]
    assert set(taken) == set(left[1:])
    assert [one.item for one in here.draw(away)] == left[:1]  # nothing is free: they may finish
    assert here.change(complete_participant, number=away).finished
    here.clock.now += 3600
    third = here.begin()
    assert {one.item for one in here.draw(third)} == set(taken)  # the second one left, too
    here.clock.now += 3600
    assert {one.item for one in here.draw(third)} == set(taken)  # nobody else came: the same images


def test_who_comes_back_gets_other_images_while_some_are_needed(open_store):
    here = open_store(images=4, answers=4, distractors=0, repeats=0)
    away = here.begin()
    first = here.draw(away)
    here.answer(away, first[0].trial)
    here.answer(away, first[1].trial)
    here.clock.now += 2 * 3600
    other = here.begin()
    here.draw(other)
    again = here.draw(away)
    fresh = [one for one in again if one.received is None]
    assert fresh
    assert not {one.trial for one in fresh} & {one.trial for one in first}
    assert len(fresh) == 2  # what they had left
    assert not {one.item for one in first[:2]} & {one.item for one in fresh}
    for one in fresh:
        assert here.answer(away, one.trial).stored
    assert here.change(complete_participant, number=away)


def test_who_comes_back_to_a_full_study_is_done(open_store):
    here = open_store(images=4, answers=1, distractors=0, repeats=0)
    away = here.begin()
    here.answer(away, here.draw(away)[0].trial)
    here.clock.now += 2 * 3600
    for _ in range(3):
        here.draw(here.begin())
    assert [one.received is not None for one in here.draw(away)] == [True]
    assert here.change(complete_participant, number=away)


def test_simulated_people_use_up_nobodys_images(open_store):
    here = open_store(images=4, answers=1, distractors=0, repeats=0)
    for _ in range(3):
        here.draw(here.begin(simulated="panel"))
    with pytest.raises(RequestError, match="all images are reserved"):
        here.begin(simulated="panel")
    assert here.loads() == {}
    person = here.begin()
    model = here.loads(simulated=True)
    assert len(here.draw(person)) == 4
    assert set(model.values()) == {1}


def test_observers_say_who_is_simulated(open_store):
    here = open_store(answers=9)
    for simulated in (None, "panel", "timm:resnet50.a1_in1k"):
        number = here.begin(simulated=simulated)
        here.answer(number, here.draw(number)[0].trial)
    table, name = here.trials().observers, here.store.study_id
    assert table.select("observer", "kind").rows() == [
        (f"human:{name}/p0001", "human"),
        (f"simulated:{name}/p0002", "simulated"),
        (f"simulated:{name}/timm:resnet50.a1_in1k-p0003", "simulated"),
    ]


def test_no_more_participants_than_wanted(open_store):
    here = open_store(images=4, answers=3, distractors=0, repeats=0, people="participants = 3")
    for _ in range(3):
        here.draw(here.begin())
    with pytest.raises(RequestError, match="as many participants as it needs"):
        here.begin()


def test_paused_hands_out_nothing_and_takes_answers(open_store):
    here = open_store()
    number, late = here.begin(), here.begin()
    shown = here.draw(number)
    here.change(set_paused, paused=True)
    assert here.answer(number, shown[0].trial).stored
    assert here.draw(number)
    for attempt in (here.begin, lambda: here.draw(late)):
        with pytest.raises(RequestError, match="paused") as refused:
            attempt()
        assert refused.value.status == 423
    here.change(set_paused, paused=False)
    assert here.draw(late)


def test_the_end_comes_after_the_last_answer(open_store):
    here = open_store()
    number = here.begin()
    with pytest.raises(RequestError, match="all trials are left") as early:
        here.change(complete_participant, number=number)
    shown = here.draw(number)
    for left, one in zip(range(len(shown), 0, -1), shown, strict=True):
        with pytest.raises(RequestError, match=f"{left} trials are left"):
            here.change(complete_participant, number=number)
        here.answer(number, one.trial)
    code = here.change(complete_participant, number=number)
    assert early.value.status == 409
    assert code == here.change(complete_participant, number=number)
    assert here.store.read(partial(read_participant, study=here.study, number=number)).finished


def test_a_design_that_shows_something_else_is_refused_once_there_are_answers(tmp_path):
    here = StudyStore(tmp_path)
    number = here.begin()
    shown = here.draw(number)
    here.store.close()
    other = read_study(make_study(tmp_path, "classify", distractors=1))
    Store.open(other).close()  # nobody has answered yet: the new design takes the place of the old one
    here.store = Store.open(here.study, clock=here.clock)
    assert here.send(number, shown[0].trial).exception(10).status == 410  # handed out under a design that is gone
    fresh = [one for one in here.draw(number) if one.received is None]
    here.answer(number, fresh[0].trial)
    here.store.close()
    with pytest.raises(InvalidInput, match=r"of small has changed since people answered.* another name") as refused:
        Store.open(other)
    assert "\n" not in str(refused.value)
    Store.open(read_study(make_study(tmp_path, "classify", answers=5, idle=5))).close()  # the stop rule may change


def test_only_a_server_replaces_a_design_that_nobody_has_answered(tmp_path):
    """A study is served while its study.toml is edited: whoever reads it leaves the open trials alone."""
    here = StudyStore(tmp_path)
    number = here.begin()
    shown = here.draw(number)
    edited = read_study(make_study(tmp_path, "classify", distractors=1))
    reader = Store.open(edited, register=False)
    assert reader.study_id == here.store.study_id
    reader.close()
    assert here.draw(number) == shown
    assert here.answer(number, shown[0].trial).stored
    with pytest.raises(InvalidInput, match="has changed since people answered"):
        Store.open(edited, register=False)
    here.store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://somebody:secret@host/name", "SQLite or PostgreSQL, got mysql"),
        ("nonsense", "a database is named by a URL"),
        ("sqlite://", "must be a file"),
        ("postgresql+psycopg://somebody:secret@127.0.0.1:1/name", "cannot use the database of .*refused"),
        ("sqlite:////nowhere/at/all.sqlite", "cannot open the database /nowhere/at/all.sqlite: No such file"),
        ("postgresql+asyncpg://somebody:secret@host/name", "SQLite or PostgreSQL, got postgresql.asyncpg"),
        ("postgresql://somebody:secret@host:port/name", "a database is named by a URL"),
    ],
)
def test_databases_that_cannot_be(tmp_path, url, message):
    study = read_study(make_study(tmp_path, "classify"))
    with pytest.raises(InvalidInput, match=message) as refused:
        Store.open(study, url)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tables_of_something_else_are_told_in_one_line(tmp_path):
    study = read_study(make_study(tmp_path, "classify"))
    with sa.create_engine(f"sqlite:///{study.root / 'answers.sqlite'}").begin() as connection:
        connection.exec_driver_sql("create table cosight_studies (something integer)")
    with pytest.raises(InvalidInput, match=r"database of .*: no such column: [^\n]* repair it or choose another$"):
        Store.open(study)


def test_images_that_everybody_sees_get_their_answers_though_people_leave(open_store):
    """Those who answer all but the images that everybody sees leave these behind; others must make up for it."""
    here = open_store("timed", images=4, answers=2, blocks=1, overlap=2)
    fixed = choose_overlap(here.study, here.pool)
    for _ in range(10):  # all that ten images want, two a person
        number = here.begin()
        for one in here.draw(number):
            if one.item not in fixed:
                here.answer(number, one.trial)
        here.clock.now += 2 * 3600
    for _ in range(2):
        number = here.begin()
        shown = here.draw(number)
        assert {one.item for one in shown if one.role == "test"} == fixed
        for one in shown:
            here.answer(number, one.trial)
    assert set(here.loads().values()) == {2}
    with pytest.raises(RequestError, match="all the answers it needs"):
        here.begin()


def test_tokens_are_not_in_the_database(open_store):
    here = open_store()
    token = here.change(create_participant, pool=here.pool, platform={})
    stored = here.store.read(lambda c: c.execute(sa.select(participants)).mappings().all())
    assert token not in repr(stored)
    assert here.store.read(lambda c: find_by_token(c, here.study, token)) == 1
    assert here.store.read(lambda c: find_by_token(c, here.study, token[:-1])) is None


def test_rows_say_what_the_contract_of_the_trial_table_asks(open_store):
    import json

    here = open_store("classify", images=4, answers=3, distractors=2, repeats=1)
    number = here.begin()
    shown = here.draw(number)
    for one in shown:
        here.answer(number, one.trial)
    frame = here.trials().frame
    assert frame["trial"].to_list() == list(range(1, len(shown) + 1))
    assert set(frame["experiment"]) == {"drawn"}  # the set's
    assert frame["session"].unique().to_list() == ["p0001"]
    extras = [json.loads(text) for text in frame["extra"]]
    assert Counter(frame["role"]) == {"test": 4, "distractor": 2, "repeat": 1}
    assert frame["block"].null_count() == 0
    assert not any({"role", "block"} & extra.keys() for extra in extras)  # said once, in their columns
    for row, extra in zip(frame.iter_rows(named=True), extras, strict=True):
        item = here.pool.items[row["stimulus"]]
        assert (row["image"], row["truth"], row["condition"]) == tuple(
            item.facts[name] for name in ("image", "truth", "condition")
        )
        assert ("clear" in extra) == ("expected" in extra) == (row["role"] == "distractor")
        assert row["repetition"] == (row["role"] == "repeat")
        if row["role"] == "repeat":
            before = frame.row(extra["repeat_of"] - 1, named=True)
            assert before["stimulus"] == row["stimulus"]


def test_nobody_has_answered_is_an_empty_table(open_store):
    here = open_store()
    trials = here.trials()
    assert len(trials) == 0
    assert trials.space == here.study.space


NAME = "A" * 22  # of a trial


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"trial": NAME},
        {"trial": 3, "response": "tiger"},
        {"trial": None, "response": "tiger"},
        {"trial": NAME, "response": "tiger"},
        {"trial": NAME, "response": "tiger", "rt": None},
        {"trial": NAME, "response": "tiger", "rt": "fast"},
        {"trial": NAME, "response": "tiger", "rt": -1},
        {"trial": NAME, "response": "tiger", "rt": True},
        {"trial": NAME, "response": "tiger", "rt": 1e300},
        {"trial": NAME, "response": "tiger", "rt": 10**400},
        {"trial": NAME, "response": "tiger", "input": "telepathy"},
        {"trial": NAME, "response": "tiger", "input": ["mouse"]},
        {"trial": NAME, "response": "tiger", "shown": {"onset": "now"}},
        {"trial": NAME, "response": "tiger", "shown": {"truth": 1}},
        {"trial": NAME, "response": "tiger", "shown": {"late": 1}},
        {"trial": NAME, "response": "tiger", "shown": {"windowed": "yes"}},
        {"trial": NAME, "response": "tiger", "shown": [1]},
    ],
)
def test_answers_of_the_wrong_shape(body):
    with pytest.raises(InvalidInput):
        parse_answer(1, body)


def test_times_are_kept_as_sent(open_store):
    import json

    here = open_store("timed")
    number = here.begin()
    first = here.draw(number)[0]
    shown = {"asked": 2.5, "onset": 10.1, "offset": 12.6, "exposure": 2.5, "frame": 1 / 60, "late": False}
    shown["windowed"] = True
    entry = parse_answer(number, {"trial": first.trial, "response": None, "rt": None, "shown": shown, "input": None})
    here.store.write_batched(entry, partial(save_answers, study=here.study, pool=here.pool, now=here.clock())).result(
        10
    )
    [row] = here.trials().frame.iter_rows(named=True)
    extra = json.loads(row["extra"])
    assert (row["response"], row["rt"]) == (None, None)
    assert {name: extra[name] for name in shown} == shown
    assert "input" not in extra


def test_a_showing_is_never_both_answered_and_taken_back(open_store):
    """People answer while others draw and take back: every row is one or the other."""
    here = open_store(images=4, answers=3, distractors=0, repeats=0, idle=1)
    numbers = [here.begin() for _ in range(6)]
    handed = {number: here.draw(number) for number in numbers}
    here.clock.now += 120

    def answer(number):
        for one in handed[number]:
            here.send(number, one.trial).exception(10)

    threads = [threading.Thread(target=answer, args=(number,)) for number in numbers]
    threads += [threading.Thread(target=here.change, args=(release_idle,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = here.store.read(lambda c: c.execute(sa.select(showings.c.received, showings.c.released)).all())
    assert not [row for row in rows if row.received is not None and row.released is not None]


def test_a_large_set_is_drawn_least_loaded_first_and_ends_with_exactly_its_answers(open_store, monkeypatch):
    """The same promises where images are drawn from the least loaded ones of a set, not from all of it."""
    monkeypatch.setattr(assign_trials_module, "_CANDIDATES", 1)
    here = open_store(images=2, answers=3, distractors=0, repeats=0, idle=1)  # 8 candidates of 12 images
    here.change(lambda connection, study, now: fill_loads(connection, study, here.pool, simulated=False))
    find = partial(assign_trials_module._find_candidates, study=here.study, pool=here.pool, seen=(), simulated=False)
    assert len(here.store.read(find)[0]) == 8
    firsts, orders = set(), set()
    for person in range(18):
        if person == 7:
            here.draw(here.begin())  # and leaves
            here.clock.now += 61
        number = here.begin()
        drawn = here.draw(number)
        assert len({one.item for one in drawn}) == 2
        for one in drawn:
            here.answer(number, one.trial)
        firsts.add(drawn[0].item)
        orders.add(tuple(one.item for one in drawn))
        counts = Counter({item.item: 0 for item in here.pool.by_role("test")}) + Counter(here.loads())
        counted = here.store.read(lambda c: c.execute(sa.select(loads.c.item, loads.c.load)).all())
        assert {row.item: row.load for row in counted if row.load} == counts
        assert max(counts.values()) - min(counts[item.item] for item in here.pool.by_role("test")) <= 1
    assert set(here.loads().values()) == {3}
    assert len(firsts) > 6
    assert len(orders) > 15
    with pytest.raises(RequestError, match="all the answers it needs"):
        here.begin()


@pytest.mark.parametrize(
    "design",
    [
        {"images": 3, "blocks": 1},
        {"images": 4, "blocks": 2, "conditions": 2},
        {"images": 4, "blocks": 1, "overlap": 1},
        {"images": 4, "blocks": 2, "conditions": 2, "overlap": 2},
        {"images": 4, "blocks": 1, "forms": True},
    ],
    ids=["timed", "conditions", "overlap", "both", "forms"],
)
def test_a_large_timed_set_keeps_the_promises_of_a_small_one(open_store, tmp_path, monkeypatch, design):
    """Exact numbers of answers, balanced conditions, the same overlap for all, one form each; whoever leaves."""
    monkeypatch.setattr(assign_trials_module, "_CANDIDATES", 1)
    write_set(tmp_path / "set", 36, condition=("clear", "dark", "grey"))
    write_set(tmp_path / "set" / "warm", 2, first=600)
    here = open_store("timed", answers=2, idle=1, **design)
    here.change(lambda connection, study, now: fill_loads(connection, study, here.pool, simulated=False))
    find = partial(assign_trials_module._find_candidates, study=here.study, pool=here.pool, seen=(), simulated=False)
    assert len(here.store.read(find)[0]) < 36
    overlap, forms = choose_overlap(here.study, here.pool), make_forms(here.study, here.pool)
    people, full = 0, False
    while not full:
        number, people = here.begin(), people + 1
        trials = here.draw(number)
        tests = {one.item for one in trials if one.role == "test"}
        assert len([one for one in trials if one.role == "test"]) == len(tests) <= design["images"]
        for one in trials[:3] if people % 4 == 2 else trials:  # some leave after the warm-up and one image
            here.answer(number, one.trial)
        if people % 4 == 2:
            here.clock.now += 61
        conditions = Counter(here.pool.items[name].facts["condition"] for name in tests)
        if "conditions" in design:
            assert len(conditions) <= 2
            assert len([name for name in tests if name in overlap]) <= design.get("overlap", 0)
        else:
            assert overlap <= tests
        if people < 5 and "forms" not in design:  # all images have the same load: the balance is perfect
            assert max(conditions.values()) - min(conditions.values()) <= 1
            assert len(tests) == design["images"]
        if "forms" in design:
            assert any(tests <= set(form) for form in forms)
        assert people < 60
        given = here.store.read(partial(count_loads, study=here.study, simulated=False, answered=True))
        full = all(given.get(item.item, 0) >= 2 for item in here.pool.by_role("test"))
    counts = here.loads()
    assert {counts[item.item] for item in here.pool.by_role("test") if item.item not in overlap} == {2}
    assert all(counts[name] >= 2 for name in overlap)


def test_loads_of_a_database_that_has_none_are_counted(open_store):
    """As in a database of an older version."""
    here = open_store()
    here.draw(here.begin())
    before = here.loads()
    here.store.write_alone(lambda connection: connection.execute(sa.delete(loads))).result(10)
    here.draw(here.begin())
    counted = here.store.read(lambda c: c.execute(sa.select(loads.c.item, loads.c.load)).all())
    assert {row.item: row.load for row in counted if row.load} == here.loads() != before


def test_the_clock_of_a_study_does_not_follow_the_systems(monkeypatch):
    clock = SteadyClock()
    before = clock()
    assert abs(before - time.time()) < 1
    for jump in (-86400.0, 86400.0):
        now = time.time() + jump
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert 0 <= clock() - before < 60
    assert pickle.loads(pickle.dumps(clock)) == clock  # other processes have the same


@pytest.mark.parametrize("jump", [-86400, 86400])
def test_a_clock_that_was_set_between_two_starts_releases_nobody_at_once_and_nobody_never(open_store, jump):
    here = open_store(images=4, answers=1, distractors=0, repeats=0, idle=5)
    number = here.begin()
    trials = here.draw(number)
    here.answer(number, trials[0].trial)
    here.store.close()
    here.clock.now += jump
    here.store = Store.open(here.study, clock=here.clock)
    here.change(release_idle)
    assert here.draw(number)[1:] == trials[1:]
    assert here.answer(number, trials[1].trial).stored
    here.clock.now += 6 * 60
    here.change(release_idle)
    assert sum(here.loads().values()) == 2
