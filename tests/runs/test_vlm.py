"""Vision-language models in runs: the real client against a local server that speaks the OpenAI protocol."""

from __future__ import annotations

import json
import signal
from time import monotonic, sleep

import polars as pl
import pytest

import cosight
from cosight.errors import InvalidInput, UnknownName
from cosight.models.vlm.journal import BudgetReached
from cosight.models.vlm.prompts import shuffled
from cosight.runs.evaluate import evaluate, resume
from cosight.runs.preview import preview
from cosight.runs.run_record import read_record, status
from cosight.stimuli.sets import read_set, with_digests
from cosight.trials.spaces import label_space
from tests.vlm_server import KEY, Answer, serving

from .conftest import CLASSES, draw_images, kept

TOY = "vlm:toy,backoff=0.01,concurrency=2"
IMAGES = 12


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """12 images of CIFAR-10's classes."""
    return draw_images(tmp_path_factory.mktemp("vlm") / "shelf", IMAGES, shape=(32, 32), seed=5)


@pytest.fixture(scope="module")
def truths(shelf):
    frame = with_digests(read_set(shelf)).frame
    return dict(zip(frame["stimulus"], frame["truth"], strict=True))


@pytest.fixture
def right(truths):
    """Answers every image rightly, in JSON where that is asked for."""

    def reply(asked, _=None):
        word = truths[asked.stimuli[0]]
        return json.dumps({"answer": word}) if asked.options else word

    return reply


def first_of(asked, truths, *names):
    """Whether a question is about one of these classes."""
    return truths[asked.stimuli[0]] in names


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_answers_become_trials(shelf, truths, right, tmp_path, monkeypatch):
    """Right, wrong, plural, refused, malformed and meaningless answers, each counted as what it is."""
    said = {
        "airplane": "dog",
        "automobile": "Automobiles.",
        "bird": "I'm sorry, I can't help with that.",
        "cat": '{"answer": "cat", "rea',
        "deer": "colourless green ideas",
        "dog": Answer(None, refusal="I will not look at this."),
        "frog": Answer("\ud800", finish="content_filter"),  # half a character, which no file can store
        "horse": Answer(status=400, error={"message": "blocked by policy", "code": "content_policy_violation"}),
    }
    expected = {
        "airplane": ("dog", 0.0, "answered"),
        "bird": ("abstain", 1.0, "refused"),
        "deer": (None, None, "unparsed"),
        "dog": ("abstain", 1.0, "refused"),
        "frog": ("abstain", 1.0, "refused"),
        "horse": ("abstain", 1.0, "refused"),
    }
    with serving(lambda asked, _: said.get(truths[asked.stimuli[0]]) or right(asked), monkeypatch) as server:
        run = evaluate(f"{TOY},price=2/10", on=shelf, out=tmp_path / "run", labels="cifar-10", progress=False)
    frame = run.trials().frame
    assert frame.height == len(server.asked) == IMAGES
    assert set(frame["kind"]) == {"vlm"}
    assert set(frame["observer"]) == {"vlm:toy"}
    for row in frame.iter_rows(named=True):
        extra = json.loads(row["extra"])
        answer = (row["response"], row["abstention"], extra["outcome"])
        assert answer == expected.get(row["truth"], (row["truth"], 0.0, "answered")), row
        assert row["probabilities"] is None
    texts = dict(zip(frame["truth"], [json.loads(extra)["text"] for extra in frame["extra"]], strict=True))
    assert texts["automobile"] == "Automobiles."
    assert texts["cat"] == '{"answer": "cat", "rea'
    assert texts["dog"] == "I will not look at this."
    (totals,) = run.requests.values()
    refused, unparsed = (
        sum(truths[key] in names for key in truths) for names in (("bird", "dog", "frog", "horse"), ("deer",))
    )
    assert (totals.answers, totals.refused, totals.unparsed, totals.requests) == (IMAGES, refused, unparsed, IMAGES)
    paid = IMAGES - 1  # an error reports no tokens
    assert (totals.tokens_in, totals.tokens_out) == (300 * paid, 5 * paid)
    assert totals.cost == pytest.approx((300 * 2 + 5 * 10) / 1e6 * paid)
    (facts,) = read_record(run.folder).observers.values()
    assert facts["requests"]["refused"] == refused
    rates = {row.measure: row.value for row in cosight.score(run.folder, resamples=10).rows}
    assert rates["refusal_rate"] == pytest.approx(refused / IMAGES)
    assert rates["unparsed_rate"] == pytest.approx(unparsed / IMAGES)
    assert rates["cost_per_answer"] == pytest.approx(totals.cost / IMAGES, rel=1e-6)
    assert rates["tokens_per_answer"] == pytest.approx(305 * paid / IMAGES)
    assert rates["accuracy"] == pytest.approx(
        sum(extra == "answered" for extra in _outcomes(frame)) / IMAGES - 2 / IMAGES
    )


def _outcomes(frame):
    return [json.loads(extra)["outcome"] for extra in frame["extra"]]


def test_refusals_lower_coverage_not_accuracy_of_the_rest(shelf, truths, right, tmp_path, monkeypatch):
    """Risk and coverage: who refuses what it would get wrong has less risk than who answers wrongly."""
    wrong = "ship", "truck"

    def refusing(asked, _):
        return "I cannot tell." if first_of(asked, truths, *wrong) else right(asked)

    def guessing(asked, _):
        return "dog" if first_of(asked, truths, *wrong) else right(asked)

    for name, reply in (("refusing", refusing), ("guessing", guessing)):
        with serving(reply, monkeypatch):
            evaluate(f"{TOY},name={name}", on=shelf, out=tmp_path / "run", labels="cifar-10", progress=False)
    rows = cosight.score(tmp_path / "run", measure=["risk_coverage", "mean_abstention"], resamples=10).rows
    values = {(row.observer, row.measure): row.value for row in rows}
    share = sum(truth in wrong for truth in truths.values()) / IMAGES
    assert values["refusing", "mean_abstention"] == pytest.approx(share)
    assert values["guessing", "mean_abstention"] == 0
    # accepting all at once has the risk of the wrong ones; accepting the refused last only at coverage 1
    assert values["guessing", "risk_coverage"] == pytest.approx(share)
    assert values["refusing", "risk_coverage"] == pytest.approx(share * share)
    rows = cosight.score(tmp_path / "run", measure=["coverage", "selective_risk"], resamples=10).rows
    own = {(row.observer, row.measure): row.value for row in rows if dict(row.group).get("coverage") in (None, "own")}
    assert own["refusing", "coverage"] == pytest.approx(1 - share)
    assert own["refusing", "selective_risk"] == 0
    assert own["guessing", "coverage"] == 1
    assert own["guessing", "selective_risk"] == pytest.approx(share)


def test_the_order_of_options_is_drawn_per_trial_and_recorded(shelf, right, tmp_path, monkeypatch):
    with serving(right, monkeypatch) as server:
        run = evaluate(TOY, on=shelf, out=tmp_path / "run", labels="cifar-10", seed=3, progress=False)
    orders = {asked.stimuli[0]: asked.options for asked in server.asked}
    assert len({tuple(order) for order in orders.values()}) == IMAGES
    for stimulus, extra in run.trials().frame.select("stimulus", "extra").iter_rows():
        assert orders[stimulus] == shuffled(CLASSES, json.loads(extra)["order_seed"])
    for asked in server.asked:
        assert asked.question.endswith(f"One of: {', '.join(asked.options)}.")
        lines = [line[2:] for line in asked.system.splitlines() if line.startswith("- ")]
        assert lines == asked.options


def test_what_refusals_and_nonsense_become_is_an_option(shelf, truths, right, tmp_path, monkeypatch):
    def reply(asked, _):
        if first_of(asked, truths, "bird"):
            return "Sorry, I can't."
        return "hm" if first_of(asked, truths, "deer") else right(asked)

    with serving(reply, monkeypatch):
        run = evaluate(
            f"{TOY},refusal=none,unparsed=abstain", on=shelf, out=tmp_path / "run", labels="cifar-10", progress=False
        )
    answers = {row["truth"]: (row["response"], row["abstention"]) for row in run.trials().frame.iter_rows(named=True)}
    assert answers["bird"] == (None, None)
    assert answers["deer"] == ("abstain", 1.0)


def test_the_reason_is_asked_for_and_kept(shelf, truths, tmp_path, monkeypatch):
    def reply(asked, _):
        schema = asked.body["response_format"]["json_schema"]["schema"]
        assert list(schema["properties"]) == ["answer", "reason"]  # the answer comes first
        return json.dumps({"answer": truths[asked.stimuli[0]], "reason": "I see it."})

    with serving(reply, monkeypatch):
        run = evaluate(f"{TOY},reason=yes", on=shelf, out=tmp_path / "run", labels="cifar-10", limit=2, progress=False)
    assert [json.loads(extra)["reason"] for extra in run.trials().frame["extra"]] == ["I see it."] * 2


TROUBLES = {
    "429": Answer(status=429, error="slow down", headers={"Retry-After": "0.02"}),
    "500": Answer(status=500, error="oops"),
    "503 without JSON": Answer(status=503, error="busy", headers={"Retry-After": "soon"}),
    "no JSON": Answer(raw=b"<html>busy</html>"),
    "no choices": Answer(raw=b'{"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []}'),
    "timeout": Answer("dog", seconds=0.3),
    "cut": Answer("dog", cut=True),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_failed_requests_are_repeated(trouble, shelf, right, tmp_path, monkeypatch):
    seen = set()

    def reply(asked, _):
        first = asked.stimuli[0] not in seen
        seen.add(asked.stimuli[0])
        return TROUBLES[trouble] if first else right(asked)

    spec = f"{TOY},timeout=0.15" if trouble == "timeout" else TOY
    with serving(reply, monkeypatch) as server:
        run = evaluate(spec, on=shelf, out=tmp_path / "run", labels="cifar-10", limit=4, progress=False)
    frame = run.trials().frame
    assert (frame["truth"] == frame["response"]).all()
    assert len(server.asked) == run.requests["vlm:toy"].requests == 8
    assert [json.loads(extra)["requests"] for extra in frame["extra"]] == [2] * 4


def test_retry_after_holds_for_all_requests(shelf, right, tmp_path, monkeypatch):
    times = []

    def reply(asked, number):
        times.append(monotonic())
        return Answer(status=429, error="slow down", headers={"Retry-After": "0.4"}) if number == 1 else right(asked)

    with serving(reply, monkeypatch) as server:
        evaluate(
            "vlm:toy,concurrency=4,rate=6000,backoff=0.01", on=shelf, out=tmp_path / "run", labels="cifar-10",
            limit=8, progress=False,
        )  # fmt: skip
    pauses = [b - a for a, b in zip(sorted(times), sorted(times)[1:], strict=False)]
    assert len(server.asked) == 9
    assert max(pauses) > 0.3


def test_concurrency_and_rate_are_limits(shelf, right, tmp_path, monkeypatch):
    slow = lambda asked, _: Answer(right(asked), seconds=0.05)  # noqa: E731
    options = {"on": shelf, "labels": "cifar-10", "progress": False}
    with serving(slow, monkeypatch) as server:
        evaluate("vlm:toy,concurrency=3", out=tmp_path / "fast", **options)
    assert server.most_at_once in (2, 3)
    started = monotonic()
    with serving(right, monkeypatch):
        evaluate("vlm:toy,concurrency=3,rate=1200", out=tmp_path / "slow", limit=5, **options)
    assert monotonic() - started > 4 * 60 / 1200


def test_a_run_whose_endpoint_dies_asks_only_what_is_missing(shelf, right, tmp_path, monkeypatch, cosight):
    """The server is gone in the middle of the run; the same command continues with another one."""
    arguments = ["evaluate", f"{TOY},retries=1", "--on", shelf, "--labels", "cifar-10", "--out", tmp_path / "run"]

    def dying(asked, number):
        return right(asked) if number <= 5 else Answer("", cut=True)

    with serving(dying, monkeypatch) as server:
        ended = cosight(*arguments)
    paid = {asked.stimuli[0] for asked in server.asked[:5]}
    lines = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
    assert (ended.code, len(lines)) == (2, 1), ended.err
    assert "the endpoint failed 2 times" in lines[0]
    assert lines[0].endswith("to ask only what is missing (--on-error skip continues without an answer)")
    assert status(tmp_path / "run").state == "stopped"
    with serving(right, monkeypatch) as server:
        assert resume(tmp_path / "run", progress=False).requests["vlm:toy"].answers == IMAGES
        assert len(server.asked) == IMAGES - len(paid)
        assert not paid & set(server.stimuli)
        before = files_of(tmp_path / "run" / "trials")
        assert cosight(*arguments).code == 0  # all answered
        assert len(server.asked) == IMAGES - len(paid)
        assert files_of(tmp_path / "run" / "trials") == before


def test_a_killed_run_does_not_pay_twice(shelf, right, tmp_path, monkeypatch, command):
    """Killed within its only shard: answers that had arrived are kept, and trials come out as if nothing happened."""
    arguments = ["evaluate", TOY, "--on", shelf, "--labels", "cifar-10", "--out", tmp_path / "run"]

    def slow(asked, number):
        return Answer(right(asked), seconds=0 if number <= 6 else 30)

    with serving(slow, monkeypatch) as server:
        process = command.start(*arguments)
        while len(server.asked) < 8:
            sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    journal = next((tmp_path / "run" / "requests").iterdir())
    with journal.open("ab") as file:
        file.write(b'{"key": "half a li')  # as if it was killed in a write
    paid = {asked.stimuli[0] for asked in server.asked[:6]}
    with serving(right, monkeypatch) as server:
        run = evaluate(TOY, on=shelf, labels="cifar-10", out=tmp_path / "run", progress=False)
        assert sorted(server.stimuli) == sorted(set(run.trials().frame["stimulus"]) - paid)
    lines = [json.loads(line) for line in journal.read_text().splitlines() if not line.endswith("half a li")]
    assert len({line["key"] for line in lines}) == len(lines) == IMAGES


@pytest.mark.parametrize(
    "budget, asked",
    [("requests=5", 5), ("tokens=1600", 5), ("cost=0.0033", 5), ("requests=100,tokens=3e3", 9), ("requests=0", 0)],
)
def test_a_budget_stops_the_run_and_more_of_it_continues(budget, asked, shelf, right, tmp_path, monkeypatch, cosight):
    """An answer has 305 tokens and costs 0.00065."""
    arguments = [
        *("evaluate", "vlm:toy,concurrency=1,price=2/10", "--on", shelf, "--labels", "cifar-10"),
        *("--out", tmp_path / "run"),
    ]
    with serving(right, monkeypatch) as server:
        ended = cosight(*arguments, "--budget", budget, "--on-error", "skip")
        lines = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
        assert (ended.code, len(lines), ended.out) == (2, 1, "")
        assert lines[0].startswith("cosight: the budget (")
        assert f"the run has taken {asked} requests, {asked * 305:,} tokens" in lines[0]
        assert "raise --budget and run the same command again: answers so far are kept" in lines[0]
        assert len(server.asked) == asked
        assert cosight(*arguments, "--budget", "requests=12,tokens=1e6,cost=1").code == 0
        assert len(server.asked) == IMAGES


def test_concurrent_requests_stay_within_the_budget(shelf, right, tmp_path, monkeypatch):
    with serving(lambda asked, _: Answer(right(asked), seconds=0.02), monkeypatch) as server:
        for budget, most in (("requests=5", 5), ("tokens=2440", 8)):
            with pytest.raises(BudgetReached):
                evaluate(
                    "vlm:toy,concurrency=4", on=shelf, labels="cifar-10", out=tmp_path / "run", budget=budget,
                    progress=False,
                )  # fmt: skip
            assert len(server.asked) <= most


@pytest.mark.parametrize("budget", ["5", "money=5", "requests=many", "requests=-1", "tokens=1,tokens=2", "cost=nan"])
def test_bad_budgets(budget, shelf, tmp_path):
    with pytest.raises(InvalidInput, match="--budget"):
        evaluate(TOY, on=shelf, out=tmp_path / "run", budget=budget)


def test_a_budget_without_such_a_model(shelf, tmp_path):
    with pytest.raises(InvalidInput, match="got requests=5 without such a model"):
        evaluate("python:tiny:model", on=shelf, out=tmp_path / "run", budget="requests=5")


def test_a_budget_of_cost_needs_the_price(shelf, tmp_path):
    with pytest.raises(InvalidInput, match="vlm:toy has none; add price=INPUT/OUTPUT"):
        evaluate(TOY, on=shelf, out=tmp_path / "run", budget="cost=5")


def test_the_key_and_the_address_are_in_no_file_and_no_message(shelf, right, tmp_path, monkeypatch, cosight):
    """Also where the endpoint repeats them: in errors that stop the run, in errors that are repeated, in answers."""
    printed = []

    def leak(status):
        return lambda asked, _: Answer(
            status=status, error=f"Incorrect API key provided: {KEY} ({server.url}); image not allowed"
        )

    def echo(asked, _):
        return Answer(right(asked) + f" my key is {KEY} at {server.url}")

    for name, reply in (("400", leak(400)), ("401", leak(401)), ("500", leak(500)), ("404", leak(404)), ("ok", echo)):
        out = tmp_path / "runs" / name
        arguments = ["evaluate", f"{TOY},retries=1", "--on", shelf, "--labels", "cifar-10", "--out", out]
        with serving(lambda asked, number: right(asked), monkeypatch) as server:
            cosight(*arguments, "--budget", "requests=2")
            server.reply = reply
            ended = cosight(*arguments)
            assert ended.code == (0 if name == "ok" else 2), ended.err
            printed += [ended.out, ended.err, *map(str, cosight("run", "status", out).__dict__.values())]
            printed.append(server.url)
            assert server.authorisations == {f"Bearer {KEY}"}
    addresses = [text for text in printed if text.startswith("http")]
    written = [path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert len(written) > 10
    for secret in (KEY, KEY[-10:], *addresses, *(address.split("/")[2] for address in addresses)):
        assert not [text for text in printed if secret in text and text not in addresses]
        assert not [data for data in written if secret.encode() in data]
    frame = pl.read_parquet(tmp_path / "runs" / "ok" / "trials" / "vlm-toy.00000.parquet")
    assert frame["extra"].str.contains("my key is ***", literal=True).any()  # compressed columns are read too
    for path in (tmp_path / "runs").rglob("*.parquet"):
        text = str(pl.read_parquet(path).to_dicts()) + str(pl.read_parquet_metadata(path))
        assert KEY not in text
        assert "127.0.0.1" not in text


def run_once(cosight, shelf, out, model=f"{TOY},retries=1", *more):
    ended = cosight("evaluate", model, "--on", shelf, "--labels", "cifar-10", "--out", out, *more)
    lines = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
    assert (ended.code, len(lines), ended.out) == (2, 1, ""), ended
    return lines[0].removeprefix("cosight: ")


def test_an_endpoint_that_is_down_at_the_start(shelf, tmp_path, monkeypatch, cosight):
    with serving(None, monkeypatch):
        pass  # the port is free again
    message = run_once(cosight, shelf, tmp_path / "run")
    assert message.startswith("the endpoint of vlm:toy")
    assert message.endswith("start the server, or check OPENAI_BASE_URL")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key(value, shelf, tmp_path, monkeypatch, cosight):
    with serving(None, monkeypatch) as server:
        if value is None:
            monkeypatch.delenv("OPENAI_API_KEY")
        else:
            monkeypatch.setenv("OPENAI_API_KEY", value)
        assert "OPENAI_API_KEY is not set" in run_once(cosight, shelf, tmp_path / "run")
    assert not server.asked
    assert not (tmp_path / "run").exists()


def test_a_key_that_is_wrong(shelf, tmp_path, monkeypatch, cosight):
    with serving(lambda *_: Answer(status=401, error="no"), monkeypatch):
        message = run_once(cosight, shelf, tmp_path / "run")
    assert message == "the endpoint does not accept the key (401); check OPENAI_API_KEY and OPENAI_BASE_URL"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "status, error",
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (422, "this model is not multimodal"),
    ],
)
def test_a_model_that_refuses_images(status, error, shelf, tmp_path, monkeypatch, cosight):
    with serving(lambda *_: Answer(status=status, error=error), monkeypatch) as server:
        message = run_once(cosight, shelf, tmp_path / "run")
    assert message.startswith(f"vlm:toy does not accept the image: {error}; name a model that takes images")
    assert len(server.asked) <= 2 + 2  # no retries; two at a time
    assert not (tmp_path / "run").exists()


def test_a_model_that_does_not_exist(shelf, tmp_path, monkeypatch, cosight):
    with serving(lambda *_: Answer(status=404, error="model not found"), monkeypatch, models=["toy-7b", "other"]):
        message = run_once(cosight, shelf, tmp_path / "run", "vlm:toi-7b")
    assert message == "the endpoint has no model 'toi-7b': model not found; did you mean toy-7b?"


def test_a_quota_that_is_used_up_is_not_asked_again(shelf, tmp_path, monkeypatch, cosight):
    error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
    with serving(lambda *_: Answer(status=429, error=error), monkeypatch) as server:
        message = run_once(cosight, shelf, tmp_path / "run", "vlm:toy,concurrency=1")
    assert message.startswith("the quota of the endpoint is used up: You exceeded")
    assert len(server.asked) == 1


def test_a_thousand_classes_are_warned_about(shelf, tmp_path, monkeypatch, cosight):
    photos = draw_images(tmp_path / "photos", 2, shape=(32, 32))
    (photos / "airplane").rename(photos / "n02690373")
    (photos / "automobile").rename(photos / "n02814533")
    with serving(lambda *_: "airliner", monkeypatch) as server:
        ended = cosight("evaluate", TOY, "--on", photos, "--labels", "imagenet-1k", "--out", tmp_path / "run")
    assert ended.code == 0
    assert "the 1,000 classes of imagenet-1k make a prompt of about" in ended.err
    assert server.asked[0].system.count("\n- ") == 1000
    frame = cosight_trials(tmp_path / "run")
    assert frame["response"].to_list() == ["n02690373"] * 2


def cosight_trials(run):
    return cosight.trials.read(run).frame


def test_parameters_that_the_endpoint_does_not_know_are_left_out(shelf, right, tmp_path, monkeypatch):
    """Such as OpenAI's reasoning models (max_tokens, temperature) and small local servers (response_format)."""

    def strict(asked, _):
        for name in ("response_format", "max_tokens", "temperature"):
            if name in asked.body:
                return Answer(status=400, error=f"Unsupported parameter: '{name}' is not supported with this model.")
        assert asked.body["max_completion_tokens"] == 1000
        return right(asked)

    with serving(strict, monkeypatch) as server:
        run = evaluate("vlm:toy,concurrency=1", on=shelf, out=tmp_path / "run", labels="cifar-10", progress=False)
    frame = run.trials().frame
    assert (frame["truth"] == frame["response"]).all()
    assert len(server.asked) == IMAGES + 3
    assert not any(json.loads(extra)["constrained"] for extra in frame["extra"])
    note = "the endpoint does not take response_format, max_tokens, temperature; asked without"
    assert f"vlm:toy: {note}" in run.notices
    (facts,) = read_record(run.folder).observers.values()
    assert facts["left_out"] == ["response_format", "max_tokens", "temperature"]


def test_plain_text_without_constraint(shelf, right, tmp_path, monkeypatch):
    with serving(right, monkeypatch) as server:
        evaluate(f"{TOY},choice=free,temperature=default", on=shelf, out=tmp_path / "run", labels="cifar-10", limit=2)
    assert all({"response_format", "temperature"}.isdisjoint(asked.body) for asked in server.asked)


def test_one_bad_image_is_skipped_and_tried_again_later(shelf, truths, right, tmp_path, monkeypatch, cosight):
    bad = min(truths)

    def reply(asked, _):
        return Answer(status=400, error="could not process image") if asked.stimuli[0] == bad else right(asked)

    with serving(reply, monkeypatch):
        assert "does not accept the image: could not process image" in run_once(cosight, shelf, tmp_path / "a")
        run = evaluate(TOY, on=shelf, out=tmp_path / "run", labels="cifar-10", on_error="skip", progress=False)
    assert len(run.skipped) == 1
    assert run.trials().frame.height == IMAGES - 1
    with serving(right, monkeypatch) as server:
        run = evaluate(TOY, on=shelf, out=tmp_path / "run", labels="cifar-10", progress=False)
        assert server.stimuli == [bad]
    assert (run.skipped, run.trials().frame.height) == ({}, IMAGES)


def test_an_endpoint_that_is_down_is_not_skipped_image_by_image(images, tmp_path, monkeypatch):
    with serving(lambda *_: Answer(status=500, error="oops"), monkeypatch) as server:
        with pytest.raises(InvalidInput, match="the endpoint failed 1 times: 500 oops"):
            evaluate("vlm:toy,retries=0", on=images, out=tmp_path / "run", labels="cifar-10", on_error="skip")
        assert len(server.asked) < 40


def test_an_image_that_is_there_twice_is_asked_about_once(shelf, right, tmp_path, monkeypatch):
    (tmp_path / "twice" / "cat").mkdir(parents=True)
    for name in ("a.png", "b.png"):
        (tmp_path / "twice" / "cat" / name).write_bytes(next((shelf / "cat").iterdir()).read_bytes())
    with serving(right, monkeypatch) as server:
        run = evaluate(TOY, on=tmp_path / "twice", out=tmp_path / "run", labels="cifar-10", progress=False)
    assert (len(server.asked), run.trials().frame.height) == (1, 2)
    assert (run.requests["vlm:toy"].answers, run.requests["vlm:toy"].requests) == (2, 1)


def test_large_images_are_shrunk_and_others_sent_as_they_are(shelf, right, tmp_path, monkeypatch):
    photos = draw_images(tmp_path / "photos", 1, shape=(96, 128))
    sizes = []

    def reply(asked, _):
        import base64
        import io

        from PIL import Image

        url = asked.body["messages"][1]["content"][1]["image_url"]["url"]
        sizes.append(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).size)
        return "airplane"

    with serving(reply, monkeypatch) as server:
        evaluate("vlm:toy,size=64", on=photos, out=tmp_path / "small", labels="cifar-10", progress=False)
        evaluate("vlm:toy", on=photos, out=tmp_path / "whole", labels="cifar-10", progress=False)
    assert sizes == [(64, 48), (128, 96)]
    assert server.asked[1].stimuli == with_digests(read_set(photos)).frame["stimulus"].to_list()


def test_other_settings_under_the_same_name_are_refused(shelf, right, tmp_path, monkeypatch):
    options = {"on": shelf, "out": tmp_path / "run", "labels": "cifar-10", "progress": False}
    with serving(right, monkeypatch):
        evaluate(f"{TOY},name=me", **options)
        with pytest.raises(InvalidInput, match="holds answers of me with other settings"):
            evaluate(f"{TOY},name=me,temperature=1", **options)
        with pytest.raises(InvalidInput, match="holds answers of me with other seed"):
            evaluate(f"{TOY},name=me", seed=1, **options)
        assert evaluate("vlm:toy,name=me,price=1/1,concurrency=1,timeout=9", **options).new == 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"features": True}, "no logits or features, got --features"),
        ({"probe": "x"}, "no logits or features, got --probe"),
        ({"abstain": "sp"}, "no logits or features, got --abstain"),
        ({"engine": "ray"}, "use --engine local"),
    ],
)
def test_options_that_do_not_apply(options, message, shelf, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        evaluate(TOY, on=shelf, out=tmp_path / "run", **options)


@pytest.mark.parametrize(
    "option, message",
    [
        ("price=2", "price must be two numbers"),
        ("price=2/-1", "price must be two numbers"),
        ("concurrency=0", "concurrency must be a whole number from 1 to 256"),
        ("retries=1.5", "retries must be a whole number"),
        ("choice=json", "choice must be auto or free"),
        ("temperature=hot", "temperature must be numbers"),
        ("timeout=0", "timeout must be a number from 0.01"),
        ("weights=x", "options of vlm models are"),
    ],
)
def test_bad_options(option, message, shelf, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        evaluate(f"vlm:toy,{option}", on=shelf, out=tmp_path / "run")


def test_a_vlm_is_no_classifier(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InvalidInput, match="no logits or features, got vlm:toy"):
        cosight.models.load_model("vlm:toy")


def test_images_per_class_are_the_same_in_every_condition(right, truths, tmp_path, monkeypatch):
    """LAION-C's layout: so many pictures per class, each in all conditions and levels, as in Li et al. 2025, A.6."""
    folder = tmp_path / "set"
    rng = iter(range(10_000))
    for condition in ("mosaic", "glitched"):
        for level in (1, 2):
            for name in ("cat", "dog", "tools"):
                for number in range(5):
                    path = folder / condition / f"intensity_level_{level}" / name
                    draw = draw_images(tmp_path / "draw", 1, shape=(32, 32), seed=next(rng))
                    path.mkdir(parents=True, exist_ok=True)
                    next((draw / "airplane").iterdir()).rename(path / f"{number}.png")
    options = {"on": folder, "labels": "laion-c-16", "progress": False}
    with serving(lambda *_: "cat", monkeypatch) as server:
        run = evaluate("vlm:toy", out=tmp_path / "run", per_class=2, **options)
        assert len(server.asked) == 2 * 3 * 2 * 2
        with pytest.raises(InvalidInput, match="holds a run with"):
            evaluate("vlm:toy", out=tmp_path / "run", per_class=3, **options)
        with pytest.raises(InvalidInput, match="holds a run with"):
            evaluate("vlm:toy", out=tmp_path / "run", per_class=2, seed=1, **options)
    frame = run.trials().frame
    pictures = frame.group_by("truth").agg(pl.col("image").unique().sort()).sort("truth")
    assert pictures["image"].list.len().to_list() == [2, 2, 2]
    per_picture = frame.group_by("truth", "image").len()
    assert per_picture["len"].to_list() == [4] * 6
    assert read_record(run.folder).plan["per_class"] == 2
    other = preview("vlm:toy", out=tmp_path / "x", per_class=2, seed=1, **options)
    assert other.models[0].images == 24


def test_a_dry_run_asks_nothing_writes_nothing_and_counts(shelf, right, tmp_path, monkeypatch, cosight):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    arguments = ["evaluate", f"{TOY},price=2/10", "--on", shelf, "--labels", "cifar-10", "--out", tmp_path / "run"]
    ended = cosight(*arguments, "--dry-run")
    assert ended.code == 0, ended.err
    assert not (tmp_path / "run").exists()
    (made,) = preview(f"{TOY},price=2/10", on=shelf, labels="cifar-10", out=tmp_path / "run").models
    assert (made.images, made.answered, made.measured) == (IMAGES, 0, 0)
    assert made.tokens_in == IMAGES * (made.prompt.tokens + 255)
    assert made.cost == pytest.approx((made.tokens_in * 2 + made.tokens_out * 10) / 1e6)
    assert f"{made.tokens_in:,}" in ended.out
    assert made.prompt.system in ended.out
    with serving(right, monkeypatch):
        assert cosight(*arguments, "--budget", "requests=4").code == 2
    (made,) = preview(f"{TOY},price=2/10", on=shelf, labels="cifar-10", out=tmp_path / "run").models
    assert (made.answered, made.tokens_in, made.tokens_out) == (4, 300 * 8, 5 * 8)


def test_a_dry_run_of_other_models_counts_their_images(shelf, tmp_path, cosight, in_workshop):
    ended = cosight("evaluate", "python:tiny:model,size=16", "--on", shelf, "--out", tmp_path / "run", "--dry-run")
    assert ended.code == 0
    assert "python:tiny:model,size=16" in ended.out
    assert not (tmp_path / "run").exists()
    assert cosight("evaluate", TOY, "--on", shelf, "--out", tmp_path / "r", "--dry-run", "--per-class", 0).code == 2
    assert cosight("evaluate", TOY, "--on", tmp_path / "none", "--out", tmp_path / "r", "--dry-run").code == 2


def test_a_study_and_a_prompt_show_the_same_classes_in_comparable_words(tmp_path, cosight):
    for name, labels in (("timed", "laion-c-16"), ("classify", "visalign-11"), ("classify", "digits-11")):
        study, pictures = tmp_path / labels, draw_class(tmp_path / f"{labels}-set", labels)
        ended = cosight("study", "new", study, "--type", name, "--set", pictures, "--labels", labels)
        assert ended.code == 0, ended.err
        shown = cosight("study", "show", study)
        dry = cosight(
            "evaluate", TOY, "--on", pictures, "--labels", labels,
            "--out", tmp_path / "run", "--dry-run",
        )  # fmt: skip
        assert (shown.code, dry.code) == (0, 0), dry.err
        classes = label_space(labels)
        buttons, lines = _lines(shown.out), _lines(dry.out)
        assert buttons.keys() == lines.keys() == set(classes.answers)
        for answer in classes.classes:
            words = f"{answer} {lines[answer]}".replace("_", " ").casefold()
            assert buttons[answer].casefold() in words or buttons[answer].casefold() in answer, (answer, words)
        both_may_refuse = ["abstain" in text.lower() or "unrecognisable" in text for text in (shown.out, dry.out)]
        assert both_may_refuse == [classes.abstain] * 2
        assert ("guess" in shown.out) == (name == "timed")
        assert ("guess" in dry.out) == (not classes.abstain)


def draw_class(folder, labels):
    draw_images(folder, 1, shape=(32, 32))
    (folder / "airplane").rename(folder / label_space(labels).classes[0])
    return folder


def _lines(printed):
    entries = (line[2:].partition(": ") for line in printed.splitlines() if line.startswith("- "))
    return {answer: text or answer for answer, _, text in entries}


def test_unknown_models_are_unknown_names(shelf, tmp_path, monkeypatch):
    with serving(lambda *_: Answer(status=404, error="none"), monkeypatch, models=None), pytest.raises(UnknownName):
        evaluate("vlm:toy", on=shelf, out=tmp_path / "run", labels="cifar-10", progress=False)


def test_trials_are_the_same_bytes_however_often_the_run_was_interrupted(shelf, right, tmp_path, monkeypatch):
    """The journal decides: a run that is continued from it writes the trials that it would have written at once."""
    with serving(right, monkeypatch) as server:
        options = {"on": shelf, "labels": "cifar-10", "out": tmp_path / "run", "progress": False}
        for requests in (3, 7):
            with pytest.raises(BudgetReached):
                evaluate(TOY, budget=f"requests={requests}", **options)
        evaluate(TOY, **options)
        files = kept(tmp_path / "run")
        for path in (tmp_path / "run" / "trials").iterdir():
            path.unlink()
        evaluate(TOY, **options)
        assert kept(tmp_path / "run") == files
        assert len(server.asked) == IMAGES
