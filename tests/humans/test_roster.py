"""Who took part: ids, codes, what people said, and what their blocks have earned."""

import polars as pl

from cosight.humans.database.progress import read_roster


def rows(here):
    return read_roster(here.study, here.pool, here.store).to_dicts()


def test_what_people_say_and_how_the_platform_knows_them(serve_study):
    people = "platform = 'prolific'\ncompletion_code = 'C1A2B3'\ndemographics = ['age', 'gender']"
    here = serve_study(people=people)
    assert read_roster(here.study, here.pool, here.store).is_empty()
    headers, _ = here.take_part(platform={"PROLIFIC_PID": "5f3e"})
    here.client.post("/api/session/demographics", json={"age": "41", "gender": ""}, headers=headers)
    here.begin(platform={"PROLIFIC_PID": "77aa"})
    first, second = rows(here)
    assert first == {
        "participant": f"human:{here.store.study_id}/p0001",
        "platform_id": "5f3e",
        "code": "C1A2B3",
        "finished": True,
        "screened_out": False,
        "answers": 7,  # four images, two distractors, one repeat
        "bonus": None,
        "pixels_per_cm": None,
        "about_age": "41",
        "about_gender": None,
    }
    name = f"human:{here.store.study_id}/p0002"
    assert (second["participant"], second["finished"], second["answers"]) == (name, False, 0)


def test_blocks_above_the_threshold_earn_the_bonus(serve_study):
    more = "[timing]\nbonus = 0.5\nbonus_above = 0.9\n"
    here = serve_study("timed", more=more)
    headers = here.begin()
    truths = {slot.stimulus: item.facts["truth"] for item in here.pool.items.values() for slot in item.slots}
    for trial in here.trials(headers):
        seen = here.store.read(
            lambda c, name=trial["trial"]: c.exec_driver_sql(
                "select item, block, role from cosight_showings where trial = ?", (name,)
            ).one()
        )
        right = truths[here.pool.items[seen.item].slots[0].stimulus]
        last_block = trial["block"] == max(one["block"] for one in here.trials(headers))
        wrong = "bear" if right != "bear" else "tiger"
        here.answer(headers, trial, wrong if last_block and seen.role != "warmup" else right)
    [row] = rows(here)
    assert row["bonus"] == 0.5  # one of two blocks
    assert row["finished"] is False  # the page has not said so yet


def answer_rightly(here, headers, trials):
    query = "select item from cosight_showings where trial = ?"
    for trial in trials:
        item = here.store.read(lambda c, name=trial["trial"]: c.exec_driver_sql(query, (name,)).scalar_one())
        here.answer(headers, trial, here.pool.items[item].facts["truth"])


def test_a_block_that_was_broken_off_earns_nothing_until_the_rest_is_done(serve_study):
    here = serve_study("timed")  # two to warm up, then two blocks of two
    headers = here.begin()
    answer_rightly(here, headers, here.trials(headers)[:3])
    here.clock.now += 2 * 3600
    here.begin()  # who comes finds what was left
    assert rows(here)[0]["bonus"] == 0.0
    answer_rightly(here, headers, here.trials(headers))
    here.client.post("/api/finish", headers=headers)
    assert rows(here)[0]["bonus"] == 1.0


def test_who_comes_back_has_had_the_warm_up(serve_study):
    """What they answered there never counts for a block that is paid."""
    here = serve_study("timed")
    headers = here.begin()
    for trial in here.trials(headers)[:2]:
        here.answer(headers, trial, "abstain")  # wrong
    here.clock.now += 2 * 3600
    here.begin()
    assert {trial["block"] for trial in here.trials(headers)} == {2, 3}
    answer_rightly(here, headers, here.trials(headers))
    here.client.post("/api/finish", headers=headers)
    assert rows(here)[0]["bonus"] == 1.0


def test_simulated_participants_are_called_so(serve_study):
    here = serve_study()
    here.take_part(simulated="panel")
    frame = read_roster(here.study, here.pool, here.store)
    assert frame["participant"].to_list() == [f"simulated:{here.store.study_id}/p0001"]
    assert frame.schema["answers"] == pl.Int64
