"""`cosight evaluate`: show stimuli to models, keep their answers as trials, go on where an earlier attempt ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.models.sources import check_line
from cosight.runs.engines import Engine, compute_threads, engines
from cosight.runs.folder import RUN, RunFolder, file_name
from cosight.runs.invitations import Invitation
from cosight.runs.participants import Participant
from cosight.runs.plan import Plan, Shard, digest_of
from cosight.runs.planning import plan_for, training_plan
from cosight.runs.probing import probe_file
from cosight.runs.record import Record, end_session, new_session, read_record
from cosight.runs.work import UNANSWERED, OnError, Way
from cosight.stimuli.images import FileFormat
from cosight.trials.mapping import How
from cosight.trials.reading import read
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import Trials

__all__ = ["Run", "evaluate"]

Progress = Callable[[int, int, str], None]
_RESOURCES = ("tiles", "resources.json")  # of stimuli made on the way, as in a stored set
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


def evaluate(
    *models: Any,
    on: str | Path,
    out: str | Path,
    source: str | Path | None = None,
    labels: str | LabelSpace | None = None,
    how: How = "mean",
    features: bool = False,
    probe: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    tiles: str | Path | None = None,
    format: FileFormat = "png",  # noqa: A002 (the option's name)
    thumbnails: bool = False,
    engine: str = "local",
    batch: int = 32,
    threads: int | None = None,
    workers: int | None = None,
    on_error: OnError = "stop",
    arguments: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Show the stimuli of `on` to each model and keep the answers in the folder `out`; to resume is to call again.

    `models` are lines (`timm:resnet50`, `onnx:FILE`, `trials:FILE`) or models, nn.Modules and functions of arrays (see
    `as_model`). `on` is a stimulus set, a folder of images, or a benchmark that alters the photos of `source` on the
    way. Answers are in the label space `labels` (default: the one the set's classes tell), to which a model's own
    classes are mapped by `how`, or which a linear probe trained on the set `probe` answers in. Models may be added to a
    run later; anything else that would change its answers is refused.
    """
    lines = _checked_lines(models)
    _check_way(engine, threads, workers, on_error)
    folder = RunFolder(Path(out))
    _check_output(folder.path)
    made = plan_for(
        on, folder.path, source=source, labels=labels, how=how, features=features, limit=limit, seed=seed, tiles=tiles,
        format=format, batch=batch, on_error=on_error,
    )  # fmt: skip
    plan = made.plan
    if folder.path.resolve().is_relative_to(plan.shown.folder.resolve()):
        raise InvalidInput(
            f"--out must lie outside {plan.shown.folder}, whose images are shown, got {out}; name another"
        )
    trained_on = None if probe is None else training_plan(probe, plan)
    way = Way(threads, workers, on_error, folder.path / "thumbnails" if thumbnails else None)
    folder.path.mkdir(parents=True, exist_ok=True)
    with folder.held():
        record = _begun(folder, plan, {**made.settings, "probe": _told(trained_on)}, arguments)
        job = _Job(folder, plan, way, engines[engine](), record, progress, [*made.notices])
        job.check_earlier()
        record.models = list(
            dict.fromkeys([*record.models, *(line.line or type(line.model).__name__ for line in lines)])
        )
        with job.session(engine=engine, threads=threads, workers=workers):
            for line in lines:
                job.ask(line, trained_on)
            job.finish()
        return job.result()


def _checked_lines(models: Sequence[Any]) -> list[Invitation]:
    """Slips of the keyboard are told before the first model is asked, not after hours."""
    if not models:
        raise InvalidInput("name at least one model, got none; for example timm:resnet50.a1_in1k")
    lines = [model for model in models if isinstance(model, str)]
    for line in lines:
        check_line(line)
        if lines.count(line) > 1:
            raise InvalidInput(f"each model is asked once, got {line} {lines.count(line)} times; name it once")
    return [Invitation(model) for model in models]


def _check_way(engine: str, threads: int | None, workers: int | None, on_error: str) -> None:
    engines.name_of(engine)
    for option, value in (("--threads", threads), ("--workers", workers)):
        if value is not None and value < 1:
            raise InvalidInput(f"{option} must be 1 or more, got {value}")
    if on_error not in ("stop", "skip"):
        raise InvalidInput(f"--on-error must be stop or skip, got {on_error!r}")


def _check_output(out: Path) -> None:
    """A new or empty folder, or a run; tiles may be there, which are made before anything else."""
    if not out.exists() or (out / RUN).exists():
        return
    if not out.is_dir() or any(path.name[0] != "." and path.name not in _RESOURCES for path in out.iterdir()):
        raise InvalidInput(f"--out must be a new or empty folder, or a run to go on with, got {out}; name another")


def _told(trained_on: Plan | None) -> str | None:
    """The images that a probe is trained on, in a word: where they are called the same, a digest tells them apart."""
    if trained_on is None:
        return None
    content = digest_of([trained_on.settings["stimuli"], list(trained_on.shown.stamps)])
    return f"{trained_on.shown.folder.resolve().name} {content[:16]}"


def _begun(folder: RunFolder, plan: Plan, more: dict[str, Any], arguments: dict[str, Any] | None) -> Record:
    """The record to go on with; answers that an earlier attempt left must be of the same plan."""
    settings = {**plan.settings, **more}
    if not (folder.path / RUN).exists():
        return Record(settings, arguments or {})
    record = read_record(folder.path)
    if not folder.has_answers():  # a model that could not be loaded, say: nothing holds us to that plan
        return Record(settings, arguments or {}, sessions=record.sessions)
    record.check_same(settings, folder.path)
    record.arguments = arguments or record.arguments
    return record


@dataclass(slots=True)
class _Job:
    """A run under way."""

    folder: RunFolder
    plan: Plan
    way: Way
    engine: Engine
    record: Record
    progress: Progress | None
    notices: list[str]
    asked: list[str] = field(default_factory=list)
    noted: dict[str, list[str]] = field(default_factory=dict)  # note -> whom it is about
    began: float = field(default_factory=monotonic)
    written: float = 0.0

    @contextmanager
    def session(self, **settings: Any) -> Iterator[None]:
        """Keep the record true whatever happens inside."""
        self.folder.clear_drafts()
        self.record.state = "going"
        self.record.sessions.append(new_session(**settings))
        self._save()
        try:
            if not self.folder.has_answers():
                self.folder.write_stimuli(self.plan)
            yield
        except BaseException as error:
            self.record.state = "stopped"
            self._end("interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__)
            with suppress(OSError):  # the error that is on its way says more
                self._save()
            raise
        self.record.state = "finished"
        self._end("finished")
        self._save()

    def _end(self, outcome: str) -> None:
        self._count(0)
        end_session(self.record.sessions[-1], outcome=outcome)

    def _save(self) -> None:
        self.record.write(self.folder.path)
        self.written = monotonic()

    def _count(self, images: int) -> None:
        session = self.record.sessions[-1]
        session["images"] += images
        session["seconds"] = round(monotonic() - self.began, 3)
        session["images_per_second"] = round(session["images"] / max(session["seconds"], 1e-3), 2)

    def check_earlier(self) -> None:
        """All answers must be to what is shown now, also those of observers who are not asked this time."""
        for name, facts in self.record.observers.items():
            self._pending(name, facts["identity"])

    def ask(self, invitation: Invitation, trained_on: Plan | None) -> None:
        """Have everyone whom the invitation is for answer what they have not answered.

        A model that cannot be asked stops the run, or is left out, as an image that cannot be shown.
        """
        try:
            self._ask(invitation, trained_on)
        except CosightError as error:
            if self.way.on_error == "stop":
                raise
            self.notices.append(f"left out: {error}")
            for facts in self.record.observers.values():
                if facts["line"] == invitation.line and facts["state"] == "going":
                    facts["state"] = "left out"

    def _ask(self, invitation: Invitation, trained_on: Plan | None) -> None:
        files = invitation.files()
        known = self._remembered(invitation, files)
        if known:
            self.asked += known
            return
        if trained_on is not None:
            invitation = self._with_probe(invitation, trained_on)
        for who in invitation.accepted(self.plan, threads=self.way.threads):
            self._enter(who, invitation, files)
            self._answered(who, invitation)
            self.asked.append(who.name)

    def _remembered(self, invitation: Invitation, files: dict[str, str] | None) -> list[str]:
        """Observers of this line who have answered everything, where it stands for the same without loading it."""
        if files is None:
            return []
        mine = {
            name: facts
            for name, facts in self.record.observers.items()
            if facts["line"] == invitation.line and facts["files"] == files
        }
        whole = all(not self._pending(name, facts["identity"]) for name, facts in mine.items())
        return list(mine) if whole and all(facts["state"] == "finished" for facts in mine.values()) else []

    def _with_probe(self, invitation: Invitation, trained_on: Plan) -> Invitation:
        featured = replace(self.plan, features=True)
        model = invitation.loaded(featured, threads=self.way.threads)
        with compute_threads(self.way.threads):
            path = probe_file(model, trained_on, self.folder.path, self.way, self.progress)
        return replace(invitation, probe=path, probe_name=trained_on.shown.folder.resolve().name)

    def _enter(self, who: Participant, invitation: Invitation, files: dict[str, str] | None) -> None:
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
        entry = {"kind": who.kind, "line": invitation.line, "files": files, "state": "going", "note": note}
        self.record.observers[who.name] = {**entry, **who.facts, "identity": dict(who.identity)}

    def _has_answered(self, name: str) -> bool:
        return any(self.folder.done(name, shard.index) for shard in self.plan.shards)

    def _pending(self, name: str, identity: dict[str, Any]) -> list[tuple[Shard, str]]:
        """Shards that are not done, with their keys; one that was done under another key is refused."""
        waiting = []
        for shard in self.plan.shards:
            key, done = self.plan.key(identity, shard), self.folder.done(name, shard.index)
            if done is not None and done.key != key:
                raise InvalidInput(
                    f"{self.folder.path} holds answers of {name} to other images than are shown now "
                    f"(rows {shard.rows.start} to {shard.rows.stop - 1}); name another --out"
                )
            lacking = self.plan.features and "recorded" not in identity  # of recorded answers there are no features
            if done is None or (lacking and not self.folder.has_features(name, shard.index)):
                waiting.append((shard, key))
        return waiting

    def _answered(self, who: Participant, invitation: Invitation) -> None:
        pending = self._pending(who.name, dict(who.identity))
        keys = {shard.index: key for shard, key in pending}
        total = sum(len(shard.rows) for shard, _ in pending)
        done, began = 0, monotonic()
        for given in self.engine.answers(who, invitation, self.plan, [shard for shard, _ in pending], self.way):
            self.folder.write(who, self.plan, given, keys.pop(given.shard.index))
            done += len(given.shard.rows)
            self._count(len(given.shard.rows))
            if monotonic() - self.written > _PAUSE:
                self._save()
            if self.progress:
                self.progress(done, total, f"{done / (monotonic() - began):.1f}/s {who.name}")
        if self.plan.features:
            self.folder.join_features(who.name, self.plan.shards)
        self.record.observers[who.name]["state"] = "finished"
        self._save()

    def finish(self) -> None:
        """What can be said only when everyone has answered."""
        if not self.asked:
            raise InvalidInput(f"no model could be asked: {self.notices[-1]}")
        skipped = self._skipped()
        if len(skipped) == self.plan.shown.frame.height:
            first = next(iter(skipped.values()))
            raise InvalidInput(f"none of the {len(skipped)} stimuli could be shown; the first: {first}")
        if self.plan.shown.frame["stimulus"].null_count():
            self.folder.learn_stimuli(self.plan, self.asked)
        everyone = [(name, facts["kind"]) for name, facts in self.record.observers.items()]
        self.folder.write_observers(everyone)

    def _skipped(self) -> dict[str, str]:
        """Files that could not be shown, and why."""
        skipped: dict[str, str] = {}
        files = self.plan.shown.frame["file"]
        for name in self.asked:
            for shard in self.plan.shards:
                done = self.folder.done(name, shard.index)
                lost = {} if done is None else done.skipped
                skipped |= {files[row]: why for row, why in lost.items() if why != UNANSWERED}
        return skipped

    def result(self) -> Run:
        """What came of it."""
        notes = [f"{_few(names)}: {note}" for note, names in self.noted.items()]
        session = self.record.sessions[-1]
        shown = self.plan.shown.frame.height
        observers = tuple(dict.fromkeys(self.asked))
        return Run(self.folder.path, observers, shown, session["images"], session["seconds"],
                   self._skipped(),
                   (*notes, *self.notices))  # fmt: skip


def _few(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
