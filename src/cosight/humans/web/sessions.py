"""A participant's requests, from the link to the completion code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cosight.errors import CosightError, InvalidInput
from cosight.humans.database import participants
from cosight.humans.database.assign_trials import Showing, draw, open_showings, update_participant
from cosight.humans.database.save_answers import answer_of, keep
from cosight.humans.refusals import Refused
from cosight.humans.study.pool import Pool, shown_slots
from cosight.humans.study.texts import label_titles
from cosight.humans.study.trial_types import as_images
from cosight.humans.web.requests import body_of, written
from cosight.humans.web.server_context import ServerContext, address
from cosight.trials.spaces import ABSTAIN

__all__ = ["routes"]

_KEYS = "1234567890abcdefghijklmnopqrstuvwxyz"
_LONGEST_TEXT = 500  # characters of an answer about oneself
_PIXELS_PER_CM = (5.0, 500.0)  # from a projector to a telephone
_PRIVATE = {"Cache-Control": "private, max-age=3600"}  # seconds: as long as a session


def _desk(request: Request) -> ServerContext:
    desk: ServerContext = request.app.state.desk
    return desk


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status, headers={"Cache-Control": "no-store"})


async def _begin(request: Request) -> Response:
    desk, body = _desk(request), await body_of(request)
    platform, simulated, token = body.get("platform") or {}, body.get("simulated"), body.get("token")
    if not isinstance(platform, dict) or not all(isinstance(value, str) for value in platform.values()):
        raise InvalidInput("platform is an object of texts")
    for name, value in (("simulated", simulated), ("token", token)):
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name} is null or a text")
    work = partial(
        participants.begin,
        study=desk.study,
        pool=desk.pool,
        now=desk.store.clock(),
        platform=platform,
        simulated=simulated,
        token=token,
    )
    return _json({"token": await written(desk.store.change(work))}, 201)


async def _about(request: Request) -> Response:
    """What a page needs before it has a session, also where there will be none."""
    study = _desk(request).study
    return _json({"name": study.name, "texts": dict(study.texts)})


async def _session(request: Request) -> Response:
    desk = _desk(request)
    number = await desk.who(request)
    who = await desk.read(partial(participants.participant, study=desk.study, number=number))
    shown = await desk.read(partial(open_showings, study=desk.study, number=number))
    session = {
        "consented": who.consented,
        "demographics": who.demographics,
        "calibrated": who.pixels_per_cm is not None,
        "pixels_per_cm": who.pixels_per_cm,
        "answered": sum(one.received is not None for one in shown),
        "total": len(shown),
        "done": who.finished,
        "completion": _completion(desk, who) if who.finished else None,
    }
    return _json({"study": _study(desk), "session": session})


def _completion(desk: ServerContext, who: participants.Participant) -> dict[str, str]:
    """The code and the way back to the platform, which may hold its code: only for those whom it sent."""
    return {"code": who.code, "url": desk.study.participants.completion_url if who.simulated is None else ""}


def _study(desk: ServerContext) -> dict[str, Any]:
    """What a page needs to know of the study, and no more."""
    study = desk.study
    return {
        "name": study.name,
        "type": study.type,
        "labels": _labels(desk),
        "texts": dict(study.texts),
        "timing": None if study.timing is None else asdict(study.timing),
        "consent": study.participants.consent,
        "demographics": list(study.participants.demographics),
        "calibration": study.participants.calibration,
        "examples": [
            {"image": f"/images/{name}", "answer": example.answer}
            for name, example in zip(desk.examples, study.examples, strict=True)
        ],
        "reasons": list(study.reasons),
    }


def _keys(classes: Sequence[str]) -> dict[str, str]:
    """Classes that are keys themselves, such as digits, are their own; the others get what is left, as far as it goes.

    >>> _keys(["0", "1", "ten"])
    {'0': '0', '1': '1', 'ten': '2'}
    """
    own = {name: name for name in classes if name in {*_KEYS}}
    others, free = [name for name in classes if name not in own], [key for key in _KEYS if key not in own]
    return own | dict(zip(others, free, strict=False))


def _labels(desk: ServerContext) -> list[dict[str, Any]]:
    space = desk.study.space
    if space is None:
        return []
    keys = _keys(space.classes) | {ABSTAIN: "space"}
    titles = label_titles(desk.study)
    icons = {name: f"icons/{name}.svg" for name in space.answers}
    return [
        {
            "name": name,
            "title": titles[name],
            "key": keys.get(name),
            "icon": f"/static/{icons[name]}" if icons[name] in desk.static else None,
        }
        for name in space.answers
    ]


async def _consent(request: Request) -> Response:
    desk, number, body = _desk(request), await _desk(request).who(request), await body_of(request)
    if body.get("agreed") is not True:
        raise InvalidInput("who takes part agrees: agreed is true")
    return await _told(desk, number, consented=desk.store.clock())


async def _demographics(request: Request) -> Response:
    desk, number, body = _desk(request), await _desk(request).who(request), await body_of(request)
    asked = desk.study.participants.demographics
    for name, value in body.items():
        if name not in asked:
            raise InvalidInput(f"only {', '.join(asked) or 'nothing'} is asked for")
        if not (value is None or isinstance(value, str)) or len(value or "") > _LONGEST_TEXT:
            raise InvalidInput(f"an answer about oneself is a text of at most {_LONGEST_TEXT} characters")
    return await _told(desk, number, demographics=json.dumps(body))


async def _calibration(request: Request) -> Response:
    desk, number, body = _desk(request), await _desk(request).who(request), await body_of(request)
    value, (low, high) = body.get("pixels_per_cm"), _PIXELS_PER_CM
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidInput(f"pixels_per_cm is a number from {low:g} to {high:g}")
    return await _told(desk, number, pixels_per_cm=float(value))


async def _told(desk: ServerContext, number: int, **values: Any) -> Response:
    work = partial(update_participant, study=desk.study, number=number, seen=desk.store.clock(), **values)
    await written(desk.store.change(work))
    return _json({})


async def _trials(request: Request) -> Response:
    desk, number = _desk(request), await _desk(request).who(request)
    who = await desk.read(partial(participants.participant, study=desk.study, number=number))
    if desk.study.participants.consent and not who.consented:
        raise Refused(409, "trials come after consent")
    work = partial(draw, study=desk.study, pool=desk.pool, number=number, now=desk.store.clock())
    shown = await written(desk.store.change(work))
    return _json(
        {
            "trials": _open_trials(desk, shown),
            "answered": sum(one.received is not None for one in shown),
            "total": len(shown),
            "blocks": len({one.block for one in shown}),
        }
    )


def _open_trials(desk: ServerContext, shown: Sequence[Showing]) -> list[dict[str, Any]]:
    """The trials to come, told so that none can be told from another."""
    pool = desk.pool
    blocks = sorted({one.block for one in shown})
    rests = [False, *(a.block != b.block for a, b in pairwise(shown))]
    return [
        {
            "trial": one.trial,
            "number": place,
            "block": blocks.index(one.block) + 1,
            "break": rest,
            "images": _images(pool, one),
            **_shown_as(desk, one),
        }
        for place, (one, rest) in enumerate(zip(shown, rests, strict=True), start=1)
        if one.received is None
    ]


def _shown_as(desk: ServerContext, one: Showing) -> dict[str, str | None]:
    """What an image is taken for, which curators must know to judge it; nobody else is told."""
    return {"title": desk.pool.items[one.item].facts["truth"]} if desk.study.type == "curate" else {}


def _images(pool: Pool, one: Showing) -> dict[str, str | list[str]]:
    slots = shown_slots(pool.items[one.item], one.order)
    return as_images(slots, [address(one.trial, place) for place in range(len(slots))])


async def _answer(request: Request) -> Response:
    desk, number = _desk(request), await _desk(request).who(request)
    answer = answer_of(number, await body_of(request))
    write = partial(keep, study=desk.study, pool=desk.pool, now=desk.store.clock())
    kept = await written(desk.store.join(answer, write))
    return _json({"stored": kept.stored, "block": None if kept.block is None else asdict(kept.block)})


async def _finish(request: Request) -> Response:
    desk, number = _desk(request), await _desk(request).who(request)
    work = partial(participants.finish, study=desk.study, number=number, now=desk.store.clock())
    return _json(_completion(desk, await written(desk.store.change(work))))


async def _image(request: Request) -> Response:
    desk, name = _desk(request), request.path_params["name"]
    try:
        picture = await desk.in_thread(partial(desk.picture, name))
    except CosightError as error:  # it names the file: for the experimenter's log, not for the page
        raise RuntimeError("an image cannot be shown") from error
    if picture is None:
        raise Refused(404, "there is no such image")
    return Response(picture.data, media_type=picture.media_type, headers=_PRIVATE)


def routes() -> list[Route]:
    """What participants can ask for."""
    return [
        Route("/api/study", _about),
        Route("/api/sessions", _begin, methods=["POST"]),
        Route("/api/session", _session),
        Route("/api/session/consent", _consent, methods=["POST"]),
        Route("/api/session/demographics", _demographics, methods=["POST"]),
        Route("/api/session/calibration", _calibration, methods=["POST"]),
        Route("/api/trials", _trials),
        Route("/api/answers", _answer, methods=["POST"]),
        Route("/api/finish", _finish, methods=["POST"]),
        Route("/images/{name}", _image),
    ]
