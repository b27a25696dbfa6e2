"""The requests of a participant, from the link to the completion code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cosight.errors import CosightError, InvalidInput
from cosight.humans.database.assign_trials import Showing, assign_trials, read_showings, release, update_participant
from cosight.humans.database.participants import (
    Participant,
    complete_participant,
    create_participant,
    read_participant,
    read_screening,
    save_screening,
)
from cosight.humans.database.save_answers import parse_answer, save_answers
from cosight.humans.database.store import RequestError
from cosight.humans.study.pool import arrange_slots
from cosight.humans.study.texts import label_titles
from cosight.humans.study.trial_types import group_addresses
from cosight.humans.web.server_context import NO_STORE, ServerContext, get_context, image_address, read_body
from cosight.trials.spaces import ABSTAIN

__all__ = ["routes"]

_KEYS = "1234567890abcdefghijklmnopqrstuvwxyz"
_MAX_TEXT = 500  # characters of an answer to a demographic question
_PIXELS_PER_CM = (5.0, 500.0)  # from a projector to a telephone
_PRIVATE = {"Cache-Control": "private, max-age=3600"}  # seconds: as long as a session


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status, headers=NO_STORE)


async def get_study(request: Request) -> Response:
    """Return what a page needs before it has a session, or when it will have none."""
    study = get_context(request).study
    return _json({"name": study.name, "texts": dict(study.texts)})


async def post_session(request: Request) -> Response:
    """Create a participant."""
    context, body = get_context(request), await read_body(request)
    platform, simulated, token = body.get("platform") or {}, body.get("simulated"), body.get("token")
    if not isinstance(platform, dict) or not all(isinstance(value, str) for value in platform.values()):
        raise InvalidInput("platform is an object of texts")
    for name, value in (("simulated", simulated), ("token", token)):
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name} is null or a text")
    create = partial(
        create_participant,
        study=context.study,
        pool=context.pool,
        now=context.store.clock(),
        platform=platform,
        simulated=simulated,
        token=token,
    )
    return _json({"token": await context.write(create)}, 201)


async def get_session(request: Request) -> Response:
    """Return the study as the page needs it, and how far the participant is."""
    context = get_context(request)
    number = await context.authenticate(request)
    participant = await context.read(partial(read_participant, study=context.study, number=number))
    showings = await context.read(partial(read_showings, study=context.study, number=number))
    answers = await context.read(partial(read_screening, study=context.study, number=number))
    session = {
        "consented": participant.consented,
        **_screening(context, participant, answers),
        "demographics": participant.demographics,
        "calibrated": participant.pixels_per_cm is not None,
        "pixels_per_cm": participant.pixels_per_cm,
        "answered": sum(showing.received is not None for showing in showings),
        "total": len(showings),
        "done": participant.finished,
        "completion": _completion(context, participant) if participant.finished else None,
    }
    study = context.study
    page = {
        "name": study.name,
        "type": study.type,
        "labels": _labels(context),
        "texts": dict(study.texts),
        "timing": None if study.timing is None else asdict(study.timing),
        "consent": study.participants.consent,
        "demographics": list(study.participants.demographics),
        "calibration": study.participants.calibration,
        "examples": [
            {"image": f"/images/{name}", "answer": example.answer}
            for name, example in zip(context.examples, study.examples, strict=True)
        ],
        "reasons": list(study.reasons),
        "mturk_hosts": list(study.participants.mturk_hosts) if study.participants.platform == "mturk" else [],
    }
    return _json({"study": page, "session": session})


def _completion(context: ServerContext, participant: Participant, code: str | None = None) -> dict[str, str]:
    """Return the code (that of completion, or of another outcome) and the address that takes it to the platform.

    Only people get the platform's: it pays for them.
    """
    if participant.simulated is not None:
        return {"code": participant.code if code is None else "", "url": ""}
    code = participant.code if code is None else code
    return {"code": code, "url": context.study.participants.return_address(code)}


def _screening(context: ServerContext, participant: Participant, answers: Mapping[str, bool]) -> dict[str, Any]:
    """Return the questions that are left, and the address for somebody who cannot take part."""
    settings = context.study.participants
    screened_out = not all(answers.values())
    return {
        "screening": [question for question in settings.screening if question not in answers],
        "screened_out": _completion(context, participant, settings.screened_out_code) if screened_out else None,
    }


def _labels(context: ServerContext) -> list[dict[str, Any]]:
    space = context.study.space
    if space is None:
        return []
    keys = _assign_keys(space.classes) | {ABSTAIN: "space"}
    titles = label_titles(context.study)
    icons = {name: f"icons/{name}.svg" for name in space.answers}
    return [
        {
            "name": name,
            "title": titles[name],
            "key": keys.get(name),
            "icon": f"/static/{icons[name]}" if icons[name] in context.static else None,
        }
        for name in space.answers
    ]


def _assign_keys(classes: Sequence[str]) -> dict[str, str]:
    """Return a key per class: classes that are keys, such as digits, are their own; others get the remaining keys.

    >>> _assign_keys(["0", "1", "ten"])
    {'0': '0', '1': '1', 'ten': '2'}
    """
    keys = {name: name for name in classes if name in {*_KEYS}}
    others, free = [name for name in classes if name not in keys], [key for key in _KEYS if key not in keys]
    return keys | dict(zip(others, free, strict=False))


async def post_consent(request: Request) -> Response:
    """Record that the participant agreed."""
    context = get_context(request)
    number, body = await context.authenticate(request), await read_body(request)
    if body.get("agreed") is not True:
        raise InvalidInput("who takes part agrees: agreed is true")
    return await _update(context, number, consented=context.store.clock(), released=None)


async def post_decline(request: Request) -> Response:
    """Record that the participant does not take part: they have left, unless they agree later."""
    context = get_context(request)
    number = await context.authenticate(request)
    leave = partial(release, study=context.study, number=number, now=context.store.clock())
    await context.write(leave)
    participant = await context.read(partial(read_participant, study=context.study, number=number))
    return _json(_completion(context, participant, context.study.participants.no_consent_code))


async def post_screening(request: Request) -> Response:
    """Store the answer to one of the screening questions."""
    context = get_context(request)
    number, body = await context.authenticate(request), await read_body(request)
    question, eligible = body.get("question"), body.get("eligible")
    if question not in context.study.participants.screening or not isinstance(eligible, bool):
        asked = ", ".join(context.study.participants.screening) or "nothing"
        raise InvalidInput(f"question is one of those asked ({asked}), and eligible is true or false")
    participant = await context.read(partial(read_participant, study=context.study, number=number))
    if context.study.participants.consent and not participant.consented:
        raise RequestError(409, "questions come after consent")
    now = context.store.clock()
    save = partial(save_screening, study=context.study, number=number, question=question, eligible=eligible, now=now)
    return _json(_screening(context, participant, await context.write(save)))


async def post_demographics(request: Request) -> Response:
    """Store the answers to the demographic questions."""
    context = get_context(request)
    number, body = await context.authenticate(request), await read_body(request)
    questions = context.study.participants.demographics
    for name, value in body.items():
        if name not in questions:
            raise InvalidInput(f"only {', '.join(questions) or 'nothing'} is asked for")
        if not (value is None or isinstance(value, str)) or len(value or "") > _MAX_TEXT:
            raise InvalidInput(f"an answer about oneself is a text of at most {_MAX_TEXT} characters")
    return await _update(context, number, demographics=json.dumps(body))


async def post_calibration(request: Request) -> Response:
    """Store the resolution of the participant's screen."""
    context = get_context(request)
    number, body = await context.authenticate(request), await read_body(request)
    value, (low, high) = body.get("pixels_per_cm"), _PIXELS_PER_CM
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidInput(f"pixels_per_cm is a number from {low:g} to {high:g}")
    return await _update(context, number, pixels_per_cm=float(value))


async def _update(context: ServerContext, number: int, **values: Any) -> Response:
    update = partial(update_participant, study=context.study, number=number, seen=context.store.clock(), **values)
    await context.write(update)
    return _json({})


async def get_trials(request: Request) -> Response:
    """Return the participant's unanswered trials, assigning them first if need be."""
    context = get_context(request)
    number = await context.authenticate(request)
    participant = await context.read(partial(read_participant, study=context.study, number=number))
    if context.study.participants.consent and not participant.consented:
        raise RequestError(409, "trials come after consent")
    answers = await context.read(partial(read_screening, study=context.study, number=number))
    if not all(answers.get(question) for question in context.study.participants.screening):
        raise RequestError(409, "trials come after the questions, and only for those who can take part")
    assign = partial(assign_trials, study=context.study, pool=context.pool, number=number, now=context.store.clock())
    showings = await context.write(assign)
    return _json(
        {
            "trials": _open_trials(context, showings),
            "answered": sum(showing.received is not None for showing in showings),
            "total": len(showings),
            "blocks": len({showing.block for showing in showings}),
        }
    )


def _open_trials(context: ServerContext, showings: Sequence[Showing]) -> list[dict[str, Any]]:
    """Return the unanswered trials without anything that distinguishes checks from tests."""
    blocks = sorted({showing.block for showing in showings})
    trials = []
    for index, showing in enumerate(showings):
        if showing.received is not None:
            continue
        item = context.pool.items[showing.item]
        slots = arrange_slots(item, showing.order)
        addresses = [image_address(showing.trial, position) for position in range(len(slots))]
        trial = {
            "trial": showing.trial,
            "number": index + 1,
            "block": blocks.index(showing.block) + 1,
            "break": index > 0 and showings[index - 1].block != showing.block,
            "images": group_addresses(slots, addresses),
        }
        if context.study.type == "curate":  # curators judge whether an image shows its class; others must not know it
            trial["title"] = item.facts["shows"] or item.facts["truth"]
        trials.append(trial)
    return trials


async def post_answer(request: Request) -> Response:
    """Store an answer; the response is sent once it is on the disk."""
    context = get_context(request)
    number = await context.authenticate(request)
    answer = parse_answer(number, await read_body(request))
    save = partial(save_answers, study=context.study, pool=context.pool, now=context.store.clock())
    result = await context.write_batched(answer, save)
    return _json({"stored": result.stored, "block": None if result.block is None else asdict(result.block)})


async def post_finish(request: Request) -> Response:
    """Complete the participant and return the completion code."""
    context = get_context(request)
    number = await context.authenticate(request)
    complete = partial(complete_participant, study=context.study, number=number, now=context.store.clock())
    return _json(_completion(context, await context.write(complete)))


async def get_image(request: Request) -> Response:
    """Return a picture of a trial or of the instructions."""
    context, name = get_context(request), request.path_params["name"]
    try:
        image = await context.run_in_thread(partial(context.load_image, name))
    except CosightError as error:
        raise RequestError(500, f"an image cannot be shown: {error}") from error
    if image is None:
        raise RequestError(404, "there is no such image")
    return Response(image.data, media_type=image.media_type, headers=_PRIVATE)


def routes() -> list[Route]:
    """Return the routes of participants' requests."""
    return [
        Route("/api/answers", post_answer, methods=["POST"]),  # first: most requests are answers or images
        Route("/images/{name}", get_image),
        Route("/api/study", get_study),
        Route("/api/sessions", post_session, methods=["POST"]),
        Route("/api/session", get_session),
        Route("/api/session/consent", post_consent, methods=["POST"]),
        Route("/api/session/decline", post_decline, methods=["POST"]),
        Route("/api/session/screening", post_screening, methods=["POST"]),
        Route("/api/session/demographics", post_demographics, methods=["POST"]),
        Route("/api/session/calibration", post_calibration, methods=["POST"]),
        Route("/api/trials", get_trials),
        Route("/api/finish", post_finish, methods=["POST"]),
    ]
