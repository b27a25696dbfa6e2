"""VisAlign's text-to-image prompts as a table: category 2 (strange backgrounds) and category 5 (mixed creatures)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any, Literal

import polars as pl

from cosight.benchmarks.visalign.balanced_draws import check_count, draws
from cosight.benchmarks.visalign.composites import composition_job
from cosight.errors import InvalidInput
from cosight.stimuli.composition import generate, pipeline_identity
from cosight.stimuli.composition.diffusion import Pipeline
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.kinds import stimulus_rng, stimulus_seed
from cosight.trials.spaces import ABSTAIN

__all__ = ["PROMPT_SCHEMA", "GeneratedImages", "PromptFacts", "Route", "prompt_facts", "prompt_table"]

Route = Literal["text", "mix"]

PROMPT_SCHEMA: dict[str, pl.DataType] = {
    "category": pl.Int64(),
    "truth": pl.String(),
    "original": pl.String(),
    "subspecies": pl.String(),
    "other": pl.String(),
    "background": pl.String(),
    "template": pl.String(),
    "prompt": pl.String(),
    "target": pl.String(),
    "negative_prompt": pl.String(),
    "seed": pl.Int64(),
    "route": pl.String(),
}
_ROUTES: dict[int, tuple[Route, ...]] = {2: ("text",), 5: ("text", "mix")}


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """The lists behind the prompts; `subspecies` is by class, in the order of label space visalign-11."""

    source: str
    note: str
    background_template: str
    hybrid_templates: tuple[str, ...]
    negative_prompt: str
    others: tuple[str, ...]
    backgrounds: tuple[str, ...]
    subspecies: Mapping[str, tuple[str, ...]]


@cache
def prompt_facts() -> PromptFacts:
    """The published lists (Lee et al. 2023, D.2 and Table 6)."""
    facts = json.loads(files(__package__).joinpath("prompts.json").read_text(encoding="utf-8"))
    lists = {name: tuple(facts[name]) for name in ("hybrid_templates", "others", "backgrounds")}
    animals = {name: tuple(names) for name, names in facts["subspecies"].items()}
    return PromptFacts(**{**facts, **lists, "subspecies": animals})


def prompt_table(
    category: int, *, count: int, seed: int, routes: Sequence[Route] | None = None, others: Sequence[str] | None = None
) -> pl.DataFrame:
    """`count` prompts of VisAlign's category 2 or 5, a row an image, in the columns of `PROMPT_SCHEMA`.

    Each ten rows hold every class once; within a class no combination comes twice before all have come, and subspecies,
    backgrounds, templates and other animals are spread evenly. The first k rows of a longer table are the table of k
    rows. `seed` of a row follows from its prompts and the table's seed, so its image does not depend on other rows.

    Category 5 goes two ways in turn (`routes`): "text" sends a hybrid prompt; "mix" first makes an image of `prompt`
    and then mixes `target` into it (MagicMix). A mix has the class in the image and any other species as its target, or
    an animal outside the classes in the image and the class as its target. `others` replaces the animals outside the
    classes (the paper names four as examples). The negative prompt is the paper's for scenes; for a hybrid prompt the
    paper gives none (its words, mutation and wrong anatomy, would work against the picture), so it is null.

    >>> prompt_table(2, count=3, seed=0)["truth"].n_unique()
    3
    """
    check_count(count)
    ways = _checked_routes(category, routes)
    outside = _checked_others(others)
    rows = {way: _rows(category, way, outside, seed) for way in ways}
    blocks = (islice(rows[way], len(prompt_facts().subspecies)) for way in cycle(ways))
    chosen = islice((row for block in blocks for row in block), count)
    return pl.DataFrame(list(chosen), schema=PROMPT_SCHEMA)


def _checked_routes(category: int, routes: Sequence[Route] | None) -> tuple[Route, ...]:
    if category not in _ROUTES:
        raise InvalidInput(f"prompts are for category 2 or 5, got {category}; other categories are not composed")
    ways = _ROUTES[category] if routes is None else tuple(routes)
    if not ways or len(set(ways)) < len(ways) or not set(ways) <= set(_ROUTES[category]):
        raise InvalidInput(
            f"routes of category {category} are {' and '.join(_ROUTES[category])}, each at most once,"
            f" got {', '.join(ways) or 'none'}"
        )
    return ways


def _checked_others(others: Sequence[str] | None) -> tuple[str, ...]:
    if others is None:
        return prompt_facts().others
    inside = {name.lower() for name in prompt_facts().subspecies}
    wrong = [name for name in others if not name.strip() or name.strip().lower() in inside]
    if wrong or not others or len(set(others)) < len(others):
        got = ", ".join(map(repr, wrong or others)) or "none"
        raise InvalidInput(f"other animals are distinct names outside the ten classes, got {got}")
    return tuple(others)


def _rows(category: int, route: Route, outside: tuple[str, ...], seed: int) -> Iterator[dict[str, Any]]:
    """Rows without end, ten classes a block, each block in a random order of its own."""
    kind, classes = f"category-{category}-{route}", tuple(prompt_facts().subspecies)
    factors = {name: _factors(category, route, name, outside) for name in classes}
    streams = {
        name: draws(list(product(*map(_indices, factors[name]))), name=f"{kind}-{name}", seed=seed) for name in classes
    }
    order = stimulus_rng(kind, "classes", "all", seed)
    while True:
        for place in order.permutation(len(classes)):
            name = classes[place]
            draw = next(streams[name])
            values = [values[index] for values, index in zip(factors[name], draw.values, strict=True)]
            row = _filled(category, route, *values)
            made_of = f"{row['prompt']}|{row.get('target', '')}"
            drawn = {"original": name, "seed": stimulus_seed(made_of, kind, str(draw.lap), seed), "route": route}
            truth = name if category == 2 else ABSTAIN
            yield {"category": category, "truth": truth, **drawn, **row}


def _factors(category: int, route: Route, name: str, outside: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """What varies within a class: subspecies first, then whatever `_filled` takes for this category and route."""
    facts = prompt_facts()
    animals = facts.subspecies[name]
    if category == 2:
        return [animals, facts.backgrounds]
    if route == "text":
        return [animals, outside, facts.hybrid_templates]
    classes = tuple(other for other in facts.subspecies if other != name)
    partners = [*((other, "target") for other in (*classes, *outside)), *((other, "image") for other in outside)]
    return [animals, facts.backgrounds, tuple(partners)]


def _filled(category: int, route: Route, animal: str, second: Any, third: Any = None) -> dict[str, str]:
    """The words of a row, from the values of its factors."""
    if category == 2:
        return {"subspecies": animal, **_scene(animal, second)}
    if route == "text":
        prompt = third.format(animal=animal, other=second)
        return {"subspecies": animal, "other": second, "template": third, "prompt": prompt}
    other, role = third
    shown, target = (animal, other) if role == "target" else (other, animal)
    return {"subspecies": animal, "other": other, "target": target, **_scene(shown, second)}


def _scene(animal: str, background: str) -> dict[str, str]:
    facts = prompt_facts()
    prompt = facts.background_template.format(animal=animal, background=background)
    words = {"background": background, "template": facts.background_template, "prompt": prompt}
    return {**words, "negative_prompt": facts.negative_prompt}


def _indices(values: tuple[Any, ...]) -> range:
    return range(len(values))


@dataclass(frozen=True, slots=True)
class GeneratedImages:
    """Images that a text-to-image pipeline makes of VisAlign's prompts.

    `load` gives the pipeline of this name, and `identify` what it is, wherever it lies.
    """

    category: int
    pipeline: str
    load: Callable[[str], Pipeline]
    count: int
    size: int = 512
    steps: int = 50
    guidance: float = 7.5
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # of `prompt_table`: routes, others
    identify: Callable[[str], str] = pipeline_identity

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, category, pipeline and how it was asked."""
        return {
            "verb": "compose",
            "category": self.category,
            **self._told(),
            "size": self.size,
            "steps": self.steps,
            "guidance": self.guidance,
            "seed": self.seed,
        }

    @property
    def packages(self) -> tuple[str, ...]:
        """What the pipeline is made with."""
        return ("torch", "diffusers", "transformers")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The pipeline's, where it is one."""
        folder = Path(self.pipeline).expanduser()
        return (folder,) if folder.is_dir() else ()

    def _told(self) -> dict[str, str]:
        """The pipeline's last name and what it is; not where it lies."""
        return {"pipeline": Path(self.pipeline).expanduser().resolve().name, "weights": self.identify(self.pipeline)}

    def units(self) -> list[Unit]:
        """One prompt each."""
        table, told = prompt_table(self.category, count=self.count, seed=self.seed, **self.options), self._told()
        return [
            Unit(row["prompt"], told["weights"], (composition_job(index, row, told),), payload=row)
            for index, row in enumerate(table.iter_rows(named=True))
        ]

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Ask the pipeline."""
        pipeline = self.load(self.pipeline)
        image = generate(pipeline, unit.payload, size=self.size, steps=self.steps, guidance=self.guidance)
        yield Outcome(jobs[0], image)
