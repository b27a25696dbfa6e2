"""A run under way: everyone is asked what they have not answered, and the record stays true whatever happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.files import remove_drafts
from cosight.runs.abstaining import derived
from cosight.runs.engines import Engine, compute_threads
from cosight.runs.execution import UNANSWERED, ExecutionOptions
from cosight.runs.folder import RunFolder, file_name
from cosight.runs.model_references import ModelReference
from cosight.runs.observers import ModelObserver, Observer
from cosight.runs.probing import probe_file
from cosight.runs.run_plan import RunPlan, Shard
from cosight.runs.run_record import RunRecord, end_session, new_session
from cosight.trials.formats import read
from cosight.trials.table import Trials

__all__ = ["Progress", "Run", "RunJob"]

Progress = Callable[[int, int, str], None]
_PAUSE = 5.0  # seconds between two writings of run.json while shards come in


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: where it is, who answered, and how it came about."""

    folder: Path
    observers: tuple[str, ...]
    stimuli: int
    new: int  # answers given now
    seconds: float  # that took
    skipped: dict[str, str]  # file of a stimulus -> why it could not be shown
    notices: tuple[str, ...]

    def trials(self) -> Trials:
        """Everyone's answers."""
        return read(self.folder)

    def responses(self) -> Trials:
        """Everyone's answers without the probabilities behind them: little memory, however many classes there are."""
        return RunFolder(self.folder).responses()


@dataclass(slots=True)
class RunJob:
    """A run under way."""

    folder: RunFolder
    plan: RunPlan
    way: ExecutionOptions
    engine: Engine
    record: RunRecord
    progress: Progress | None
    notices: list[str]
    asked: list[str] = field(default_factory=list)
    noted: dict[str, list[str]] = field(default_factory=dict)  # note -> whom it is about
    began: float = field(default_factory=monotonic)
    written: float = 0.0

    def carry_out(self, lines: Sequence[ModelReference], trained_on: RunPlan | None, **settings: Any) -> Run:
        """Ask everyone."""
        self._check_earlier()
        known = [*self.record.models, *(line.told for line in lines)]
        self.record.models = list(dict.fromkeys(known))
        with self._session(**settings):
            for line in lines:
                self._ask_or_leave_out(line, trained_on)
            self._finish()
        return self._result()

    @contextmanager
    def _session(self, **settings: Any) -> Iterator[None]:
        """Keep the record true whatever happens inside."""
        remove_drafts(self.folder.path)
        self.record.state = "going"
        self.record.sessions.append(new_session(**settings))
        self._save()
        try:
            if not self.folder.has_stimuli():
                self.folder.write_stimuli(self.plan)
            yield
        except BaseException as error:
            self.record.state = "stopped"
            self._end("interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__)
            with suppress(OSError):  # the error that is on its way says more
                self._save()
            raise
        waiting = any(facts["state"] == "going" for facts in self.record.observers.values())
        self.record.state = "stopped" if waiting else "finished"
        self._end("finished")
        self._save()

    def _end(self, outcome: str) -> None:
        self._count(0)
        torch = sys.modules.get("torch")  # whose own choice is worth knowing where none was made
        self.record.sessions[-1]["threads"] = self.way.threads or (torch.get_num_threads() if torch else None)
        end_session(self.record.sessions[-1], outcome=outcome)

    def _save(self) -> None:
        self.record.write(self.folder.path)
        self.written = monotonic()

    def _count(self, images: int) -> None:
        session = self.record.sessions[-1]
        session["images"] += images
        session["seconds"] = round(monotonic() - self.began, 3)
        session["images_per_second"] = round(session["images"] / max(session["seconds"], 1e-3), 2)

    def _check_earlier(self) -> None:
        """All answers must be to what is shown now, also those of observers who are not asked this time."""
        for name, facts in self.record.observers.items():
            self._pending(name, facts["identity"])

    def _ask_or_leave_out(self, invitation: ModelReference, trained_on: RunPlan | None) -> None:
        """A model that cannot be asked stops the run, or is left out, as an image that cannot be shown."""
        before = set(self.record.observers)
        try:
            self._ask(invitation, trained_on)
        except CosightError as error:
            if self.way.on_error == "stop":
                raise
            self.notices.append(f"left out: {error}")
            for name, facts in self.record.observers.items():
                if name not in before and facts["state"] == "going":
                    facts["state"] = "left out"

    def _ask(self, invitation: ModelReference, trained_on: RunPlan | None) -> None:
        """Have everyone whom the invitation is for answer what they have not answered."""
        files = invitation.files()
        known = self._remembered(invitation, files)
        if known:
            self.asked += known
            return
        if trained_on is not None and not invitation.recorded:
            invitation = self._with_probe(invitation, trained_on)
        for who in invitation.accepted(self.plan, threads=self.way.threads):
            self._enter(who, invitation, files)
            self._answer(who, invitation)
            self.asked.append(who.name)
            if self.plan.abstain and isinstance(who, ModelObserver):
                self._derive(who, invitation, files)

    def _remembered(self, invitation: ModelReference, files: dict[str, str] | None) -> list[str]:
        """Observers of this line who have answered everything, where it stands for the same without loading it."""
        if files is None:
            return []
        mine = {
            name: facts
            for name, facts in self.record.observers.items()
            if facts["line"] == invitation.line and facts["files"] == files
        }
        whole = all(facts["state"] == "finished" and self._is_whole(name, facts) for name, facts in mine.items())
        return list(mine) if whole else []

    def _is_whole(self, name: str, facts: dict[str, Any]) -> bool:
        """Whether all shards are done, and all abstention functions that are asked for were tried."""
        tried = "of" in facts or set(self.plan.abstain) <= set(facts.get("abstain", ()))
        return tried and not self._pending(name, facts["identity"])

    def _with_probe(self, invitation: ModelReference, trained_on: RunPlan) -> ModelReference:
        model = invitation.loaded(replace(self.plan, features=True), threads=self.way.threads)
        with compute_threads(self.way.threads):
            path = probe_file(model, trained_on, self.folder.path, self.way, self.progress)
        return replace(invitation, probe=path, probe_name=trained_on.shown.folder.resolve().name)

    def _enter(self, who: Observer, invitation: ModelReference, files: dict[str, str] | None) -> None:
        """Note who is asked; the same name must be the same observer, and have files of its own."""
        if who.name in self.asked:
            raise InvalidInput(f"each observer is asked once, got {who.name} twice; name it once")
        for name, facts in self.record.observers.items():
            if name != who.name and file_name(name) == file_name(who.name):
                raise InvalidInput(f"{who.name} and {name} would share their files; put them into runs of their own")
            if name == who.name and facts["identity"] != who.identity and self._has_answered(name):
                changed = next(k for k, v in who.identity.items() if facts["identity"].get(k) != v)
                raise InvalidInput(
                    f"{self.folder.path} holds answers of {who.name} with other {changed} than now; name another --out"
                )
        note = getattr(who, "note", None)
        if note:
            self.noted.setdefault(note, []).append(who.name)
        tried = self.record.observers.get(who.name, {}).get("abstain", [])
        entry = {"kind": who.kind, "line": invitation.line, "files": files, "state": "going", "note": note}
        more = {"abstain": tried} if self.plan.abstain else {}
        self.record.observers[who.name] = {**entry, **more, **who.facts, "identity": dict(who.identity)}
        self._save()  # before the first answer: whoever finds answers finds whose they are

    def _has_answered(self, name: str) -> bool:
        return any(self.folder.done(name, shard.index) for shard in self.plan.shards)

    def _pending(self, name: str, identity: dict[str, Any]) -> list[tuple[Shard, str]]:
        """Shards that are not done, with their keys; one that was done under another key is refused."""
        keys = [(shard, self.plan.key(identity, shard)) for shard in self.plan.shards]
        waiting = [(shard, key) for shard, key in keys if self._is_waiting(name, identity, shard, key)]
        mended = any(self.folder.done(name, shard.index) for shard, _ in waiting)
        joined = self.plan.keeps and self.folder.features_file(name).exists()
        return keys if mended and joined else waiting  # what was joined is not taken apart

    def _is_waiting(self, name: str, identity: dict[str, Any], shard: Shard, key: str) -> bool:
        done = self.folder.done(name, shard.index)
        if done is None:
            return True
        if done.key != key:
            raise InvalidInput(
                f"{self.folder.path} holds answers of {name} to other images than are shown now "
                f"(rows {shard.rows.start} to {shard.rows.stop - 1}); name another --out"
            )
        if {"recorded", "abstention"} & identity.keys():  # no images are shown to these, no features kept
            return False
        skipped = self.way.on_error == "stop" and bool(done.skipped)  # it may have been mended; if not, that is told
        return skipped or (self.plan.keeps and not self.folder.has_features(name, shard.index))

    def _answer(self, who: Observer, invitation: ModelReference) -> None:
        pending = self._pending(who.name, dict(who.identity))
        if len(pending) == len(self.plan.shards):
            self.folder.drop_features(who.name)  # of an earlier attempt, in which an image was skipped
        keys = {shard.index: key for shard, key in pending}
        total = sum(len(shard.rows) for shard, _ in pending)
        done, began = 0, monotonic()
        for given in self.engine.answers(who, invitation, self.plan, [shard for shard, _ in pending], self.way):
            self.folder.write(who, self.plan, given, keys.pop(given.shard.index))
            done += len(given.shard.rows)
            self._count(len(given.rows))
            if monotonic() - self.written > _PAUSE:
                self._save()
            if self.progress:
                self.progress(done, total, f"{done / (monotonic() - began):.1f}/s {who.name}")
        if not pending and self.way.thumbnails is not None:
            self.noted.setdefault("thumbnails are made while images are shown, and all were before", []).append(
                who.name
            )
        if self.plan.keeps:
            self.folder.join_features(who.name, self.plan.shards)
        self.record.observers[who.name]["state"] = "finished"
        self._save()

    def _derive(self, who: ModelObserver, invitation: ModelReference, files: dict[str, str] | None) -> None:
        """The model's answers with each abstention function."""
        tried = self.record.observers[who.name]["abstain"]
        for made in derived(self.folder, self.plan, who):
            tried += [made.function] if made.function not in tried else []
            if made.observer is None:
                self.noted.setdefault(f"no {made.function}: {made.reason}", []).append(who.name)
                continue
            entry = {"kind": who.kind, "line": invitation.line, "files": files, "state": "finished", "note": None}
            more = {"of": who.name, "abstention": made.function, "scale": made.scale}
            self.record.observers[made.observer] = {**entry, **more, "identity": dict(made.identity)}
            self.asked.append(made.observer)
            self._save()

    def _finish(self) -> None:
        """What can be said only when everyone has answered."""
        if not self.asked:
            raise InvalidInput(f"no model could be asked: {self.notices[-1]}")
        everyone = list(self.record.observers)
        for name in self.asked:
            lost = self._skipped(name)
            if len(lost) == self.plan.shown.frame.height:
                first = next(iter(lost.values()))
                raise InvalidInput(f"none of the {len(lost)} stimuli could be shown to {name}; the first: {first}")
        if self.plan.shown.frame["stimulus"].null_count():
            self.folder.learn_stimuli(self.plan, everyone)
        self.folder.write_observers([(name, self.record.observers[name]["kind"]) for name in everyone])

    def _skipped(self, name: str) -> dict[str, str]:
        """Files that could not be shown to an observer, and why."""
        files = self.plan.shown.frame["file"]
        found = [self.folder.done(name, shard.index) for shard in self.plan.shards]
        lost = [item for done in found if done is not None for item in done.skipped.items()]
        return {files[row]: why for row, why in lost if why != UNANSWERED}

    def _result(self) -> Run:
        """What came of it."""
        notes = [f"{_few(names)}: {note}" for note, names in self.noted.items()]
        waiting = [name for name, facts in self.record.observers.items() if facts["state"] == "going"]
        notes += [f"{_few(waiting)}: not all stimuli are answered yet; `cosight run resume` goes on"] if waiting else []
        session = self.record.sessions[-1]
        skipped = {file: why for name in self.asked for file, why in self._skipped(name).items()}
        return Run(
            folder=self.folder.path,
            observers=tuple(dict.fromkeys(self.asked)),
            stimuli=self.plan.shown.frame.height,
            new=session["images"],
            seconds=session["seconds"],
            skipped=skipped,
            notices=(*notes, *self.notices),
        )


def _few(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
