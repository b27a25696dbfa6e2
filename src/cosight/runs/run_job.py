"""Execution of a plan: every observer answers the shards that the run folder does not have yet.

The record is written before the first answer of an observer and after every change of its state, so that it is valid
whenever the process is interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from cosight.errors import CosightError, InvalidInput
from cosight.files import file_name, remove_drafts
from cosight.models.vlm.journal import BudgetReached, Spending
from cosight.runs.abstention_observers import derive_abstention_observers
from cosight.runs.execution import Engine, ExecutionOptions, Progress, compute_threads
from cosight.runs.folder import RunFolder
from cosight.runs.observers import UNANSWERED, ModelObserver, ModelReference, Observer
from cosight.runs.probe_training import train_probe
from cosight.runs.run_plan import RunPlan, Shard
from cosight.runs.run_record import RunRecord, end_session, new_session
from cosight.runs.vlm_observers import VlmObserver, vlm_observer
from cosight.trials.formats import read
from cosight.trials.requests import RequestTotals
from cosight.trials.table import Trials

__all__ = ["Run", "RunJob"]

_SAVE_INTERVAL = 5.0  # seconds between two writes of run.json while shards are answered


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        folder: The run folder.
        observers: Names of the observers of this call.
        stimuli: Number of stimuli.
        new: Number of answers that this call added.
        seconds: Time that they took.
        skipped: File of a stimulus -> why it could not be shown.
        notices: What the user should know.
        requests: Observer -> what its requests took, for vision-language models.
    """

    folder: Path
    observers: tuple[str, ...]
    stimuli: int
    new: int
    seconds: float
    skipped: dict[str, str]
    notices: tuple[str, ...]
    requests: dict[str, RequestTotals] = field(default_factory=dict)

    def trials(self) -> Trials:
        """Read the answers of all observers."""
        return read(self.folder)

    def responses(self) -> Trials:
        """Read the answers of all observers without class probabilities, which need memory."""
        return RunFolder(self.folder).responses()


@dataclass(slots=True)
class RunJob:
    """A plan that is being executed, and what has happened so far."""

    folder: RunFolder
    plan: RunPlan
    options: ExecutionOptions
    engine: Engine
    record: RunRecord
    progress: Progress | None
    notices: list[str]
    observers: list[str] = field(default_factory=list)  # that have answered in this call
    notes: dict[str, list[str]] = field(default_factory=dict)  # note -> observers
    spending: Spending = field(default_factory=Spending)  # on requests to vision-language models
    started: float = field(default_factory=monotonic)
    saved: float = 0.0  # when run.json was last written

    def run(self, references: Sequence[ModelReference], probe_training: RunPlan | None, **settings: Any) -> Run:
        """Let every model answer, and return the finished run.

        Args:
            references: The models.
            probe_training: The plan of the images that linear probes are trained on, if probes answer.
            **settings: Settings that the session records.
        """
        for name, facts in self.record.observers.items():  # also of models that are not named in this call
            self._pending_shards(name, facts["identity"])
        models = [*self.record.models, *(reference.description for reference in references)]
        self.record.models = list(dict.fromkeys(models))
        with self._session(**settings):
            for reference in references:
                earlier = set(self.record.observers)
                try:
                    self._run_model(reference, probe_training)
                except CosightError as error:
                    if self.options.on_error == "stop" or isinstance(error, BudgetReached):
                        raise
                    self.notices.append(f"left out: {error}")
                    for name, facts in self.record.observers.items():
                        if name not in earlier and facts["state"] == "going":
                            facts["state"] = "left out"
            self._finish()
        return self._result()

    @contextmanager
    def _session(self, **settings: Any) -> Iterator[None]:
        """Record a session from its start to its end, however it ends."""
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
            interrupted = isinstance(error, KeyboardInterrupt)
            self._end_session("interrupted" if interrupted else str(error) or type(error).__name__)
            with suppress(OSError):  # the original error is more important
                self._save()
            raise
        unfinished = any(facts["state"] == "going" for facts in self.record.observers.values())
        self.record.state = "stopped" if unfinished else "finished"
        self._end_session("finished")
        self._save()

    def _end_session(self, outcome: str) -> None:
        self._count_images(0)
        torch = sys.modules.get("torch")  # records torch's own choice where --threads is not given
        self.record.sessions[-1]["threads"] = self.options.threads or (torch.get_num_threads() if torch else None)
        end_session(self.record.sessions[-1], outcome=outcome)

    def _save(self) -> None:
        self.record.write(self.folder.path)
        self.saved = monotonic()

    def _count_images(self, images: int) -> None:
        session = self.record.sessions[-1]
        session["images"] += images
        session["seconds"] = round(monotonic() - self.started, 3)
        session["images_per_second"] = round(session["images"] / max(session["seconds"], 1e-3), 2)

    def _run_model(self, reference: ModelReference, probe_training: RunPlan | None) -> None:
        """Let all observers of a reference answer the shards that they have not answered."""
        files = reference.file_stamps()
        finished = self._finished_observers(reference, files)
        if finished:
            self.observers += finished
            return
        device = self.options.device if self.engine.in_this_process else "cpu"
        if probe_training is not None and not reference.is_recorded:
            with_features = replace(self.plan, features=True)
            model = reference.load(with_features, threads=self.options.threads, device=device)
            with compute_threads(self.options.threads):
                path = train_probe(model, probe_training, self.folder.path, self.options, self.progress)
            reference = replace(reference, probe=path, probe_name=probe_training.stimuli.folder.resolve().name)
        for observer in self._load_observers(reference, device):
            self._add_observer(observer, reference, files)
            try:
                self._answer(observer, reference)
            finally:
                if isinstance(observer, VlmObserver):
                    observer.client.endpoint.close()
            self.observers.append(observer.name)
            if self.plan.abstain and isinstance(observer, ModelObserver):
                self._add_abstention_observers(observer, reference, files)

    def _load_observers(self, reference: ModelReference, device: str) -> Sequence[Observer]:
        if reference.spec is None or not reference.is_vlm:
            return reference.observers(self.plan, threads=self.options.threads, device=device)
        return [
            vlm_observer(
                reference.spec, self.plan, self.folder, spending=self.spending, on_error=self.options.on_error
            )
        ]  # fmt: skip

    def _finished_observers(self, reference: ModelReference, files: dict[str, str] | None) -> list[str]:
        """Return the observers of a reference if all have finished; the model need not be loaded then."""
        if files is None:
            return []
        recorded = {
            name: facts
            for name, facts in self.record.observers.items()
            if facts["line"] == reference.spec and facts["files"] == files
        }
        for name, facts in recorded.items():
            all_tried = "of" in facts or set(self.plan.abstain) <= set(facts.get("abstain", ()))
            if facts["state"] != "finished" or not all_tried or self._pending_shards(name, facts["identity"]):
                return []
        return list(recorded)

    def _add_observer(self, observer: Observer, reference: ModelReference, files: dict[str, str] | None) -> None:
        """Record an observer; raise where its name or its files belong to another one."""
        if observer.name in self.observers:
            raise InvalidInput(f"each observer answers once, got {observer.name} twice; name it once")
        for name, facts in self.record.observers.items():
            if name != observer.name and file_name(name) == file_name(observer.name):
                raise InvalidInput(
                    f"{observer.name} and {name} would have the same file names; put them into separate runs"
                )
            is_other = name == observer.name and facts["identity"] != observer.identity
            if is_other and any(self.folder.read_job(name, shard.index) for shard in self.plan.shards):
                changed = next(key for key, value in observer.identity.items() if facts["identity"].get(key) != value)
                raise InvalidInput(
                    f"{self.folder.path} holds answers of {observer.name} with other {changed}; choose another --out"
                )
        note = getattr(observer, "note", None)
        if note:
            self.notes.setdefault(note, []).append(observer.name)
        tried = self.record.observers.get(observer.name, {}).get("abstain", [])  # functions of earlier sessions
        self.record.observers[observer.name] = {
            "kind": observer.kind,
            "line": reference.spec,
            "files": files,
            "state": "going",
            "note": note,
            **({"abstain": tried} if self.plan.abstain else {}),
            **observer.facts,
            "identity": dict(observer.identity),
        }
        self._save()  # before the first answer, so that answers always have a recorded observer

    def _pending_shards(self, name: str, identity: dict[str, Any]) -> list[tuple[Shard, str]]:
        """Return the shards that an observer has not finished, with their keys.

        Raises InvalidInput where a shard was finished under another key.
        """
        keys = [(shard, self.plan.key(identity, shard)) for shard in self.plan.shards]
        pending = [(shard, key) for shard, key in keys if self._is_pending(name, identity, shard, key)]
        is_repeated = any(self.folder.read_job(name, shard.index) for shard, _ in pending)
        is_joined = self.plan.stores_arrays and self.folder.features_file(name).exists()
        return keys if is_repeated and is_joined else pending  # joined features are only written as a whole

    def _is_pending(self, name: str, identity: dict[str, Any], shard: Shard, key: str) -> bool:
        job = self.folder.read_job(name, shard.index)
        if job is None:
            return True
        if job.key != key:
            raise InvalidInput(
                f"{self.folder.path} holds answers of {name} to other images than those of this run "
                f"(rows {shard.rows.start} to {shard.rows.stop - 1}); choose another --out"
            )
        if {"recorded", "abstention"} & identity.keys():  # these see no images and have no features
            return False
        retry_skipped = self.options.on_error == "stop" and bool(job.skipped)  # the files may be repaired now
        return retry_skipped or (self.plan.stores_arrays and not self.folder.has_features(name, shard.index))

    def _answer(self, observer: Observer, reference: ModelReference) -> None:
        """Let an observer answer its pending shards, and write each of them."""
        pending = self._pending_shards(observer.name, dict(observer.identity))
        if len(pending) == len(self.plan.shards):
            self.folder.remove_features(observer.name)  # of an earlier session, in which an image was skipped
        keys = {shard.index: key for shard, key in pending}
        shards = [shard for shard, _ in pending]
        total = sum(len(shard.rows) for shard in shards)
        done, asked, started = 0, 0, monotonic()

        def report() -> None:
            if self.progress:
                self.progress(done + asked, total, f"{(done + asked) / (monotonic() - started):.1f}/s {observer.name}")

        def count_answer() -> None:  # of a shard under way, which may take minutes
            nonlocal asked
            asked += 1
            report()

        if isinstance(observer, VlmObserver):
            observer.client.on_answer = count_answer
        for answers in self.engine.answers(observer, reference, self.plan, shards, self.options):
            self.folder.write(observer, self.plan, answers, keys.pop(answers.shard.index))
            done, asked = done + len(answers.shard.rows), 0
            self._count_images(len(answers.rows))
            if answers.batch is not None:
                self._note_batch(observer.name, answers.batch)
            if monotonic() - self.saved > _SAVE_INTERVAL:
                self._save()
            report()
        if not pending and self.options.thumbnails is not None:
            note = "thumbnails are made while images are shown, and all were shown before"
            self.notes.setdefault(note, []).append(observer.name)
        if self.plan.stores_arrays:
            self.folder.join_features(observer.name, self.plan.shards)
        if isinstance(observer, VlmObserver):
            self.record.observers[observer.name]["requests"] = asdict(self.folder.request_totals(observer.name))
            if observer.closing_note is not None:
                self.record.observers[observer.name]["left_out"] = observer.client.endpoint.left_out
                self.notes.setdefault(observer.closing_note, []).append(observer.name)
        self.record.observers[observer.name]["state"] = "finished"
        self._save()

    def _note_batch(self, observer: str, batch: int) -> None:
        """Record the largest batch that memory was large enough for, and tell it once."""
        batches = self.record.sessions[-1].setdefault("smaller_batches", {})
        batches[observer] = min(batch, batches.get(observer, batch))

    def _add_abstention_observers(
        self, model: ModelObserver, reference: ModelReference, files: dict[str, str] | None
    ) -> None:
        """Write the model's answers with each abstention function, and record these observers."""
        tried = self.record.observers[model.name]["abstain"]
        for derived in derive_abstention_observers(self.folder, self.plan, model):
            if derived.function not in tried:
                tried.append(derived.function)
            if derived.observer is None:
                self.notes.setdefault(f"no {derived.function}: {derived.reason}", []).append(model.name)
                continue
            self.record.observers[derived.observer] = {
                "kind": model.kind,
                "line": reference.spec,
                "files": files,
                "state": "finished",
                "note": None,
                "of": model.name,
                "abstention": derived.function,
                "scale": derived.scale,
                "identity": dict(derived.identity),
            }
            self.observers.append(derived.observer)
            self._save()

    def _finish(self) -> None:
        """Check that something was answered, and write what is known only at the end."""
        if not self.observers:
            raise InvalidInput(f"no model could answer: {self.notices[-1]}")
        for name in self.observers:
            skipped = self._skipped_files(name)
            if len(skipped) == self.plan.stimuli.frame.height:
                first = next(iter(skipped.values()))
                raise InvalidInput(f"none of the {len(skipped)} stimuli could be shown to {name}; the first: {first}")
        recorded = self.record.observers
        if self.plan.stimuli.frame["stimulus"].null_count():
            self.folder.write_digests(self.plan, list(recorded))
        self.folder.write_observers([(name, facts["kind"]) for name, facts in recorded.items()])

    def _skipped_files(self, name: str) -> dict[str, str]:
        """Return the files that could not be shown to an observer -> why."""
        files = self.plan.stimuli.frame["file"]
        jobs = [self.folder.read_job(name, shard.index) for shard in self.plan.shards]
        skipped = [item for job in jobs if job is not None for item in job.skipped.items()]
        return {files[row]: reason for row, reason in skipped if reason != UNANSWERED}

    def _result(self) -> Run:
        unfinished = [name for name, facts in self.record.observers.items() if facts["state"] == "going"]
        if unfinished:
            self.notes["not all stimuli are answered yet; resume with `cosight run resume`"] = unfinished
        for name, batch in self.record.sessions[-1].get("smaller_batches", {}).items():
            note = f"memory is too small for a batch of {self.plan.batch}; continued with {batch} images at a time"
            self.notes.setdefault(note, []).append(name)
        notes = []
        for note, names in self.notes.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            notes.append(f"{names[0]}{more}: {note}")
        session = self.record.sessions[-1]
        return Run(
            folder=self.folder.path,
            observers=tuple(dict.fromkeys(self.observers)),
            stimuli=self.plan.stimuli.frame.height,
            new=session["images"],
            seconds=session["seconds"],
            skipped={file: reason for name in self.observers for file, reason in self._skipped_files(name).items()},
            notices=(*notes, *self.notices),
            requests={
                name: RequestTotals(**facts)
                for name in dict.fromkeys(self.observers)
                if (facts := self.record.observers[name].get("requests")) is not None
            },
        )
