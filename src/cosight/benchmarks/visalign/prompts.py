"""VisAlign's text-to-image prompts for categories 2 (strange backgrounds) and 5 (mixed creatures), and their images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any, ClassVar, Literal

import polars as pl

from cosight.benchmarks.visalign.balanced_draws import check_count, cycle_classes, draws
from cosight.benchmarks.visalign.categories import truth_of
from cosight.benchmarks.visalign.class_facts import ClassFacts, read_class_facts
from cosight.benchmarks.visalign.composites import composition_job, composition_parameters
from cosight.errors import InvalidInput
from cosight.stimuli.composition import generate, pipeline_identity
from cosight.stimuli.composition.diffusion import Pipeline
from cosight.stimuli.generate import Outcome, StimulusJob, Unit
from cosight.stimuli.kinds import stimulus_seed
from cosight.trials.spaces import space_facts

__all__ = ["PROMPT_SCHEMA", "GeneratedImages", "Route", "prompt_table"]

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


def prompt_table(
    category: int,
    *,
    count: int,
    seed: int,
    routes: Sequence[Route] | None = None,
    others: Sequence[str] | None = None,
    facts: ClassFacts | None = None,
) -> pl.DataFrame:
    """Return prompts of VisAlign's category 2 or 5, one row per image.

    Each round of rows has every class once; within a class no combination comes twice before all were used, and
    subspecies, backgrounds, templates and other animals are spread evenly. The first k rows of a longer table are the
    table of k rows. The `seed` of a row follows from its prompts and the table's seed, so its image does not depend on
    other rows.

    A "text" row of category 5 has a hybrid prompt. For a "mix" row, an image of `prompt` is made first and then mixed
    with `target` (MagicMix): the class is in the image and any other species is the target, or an animal outside the
    classes is in the image and the class is the target. The negative prompt is the paper's for scenes; it gives none
    for hybrid prompts (its words, mutation and wrong anatomy, would work against the picture), so there it is null.

    Args:
        category: 2 or 5.
        count: Number of rows.
        seed: Seed of the table.
        routes: The routes of category 5, which take turns (default: "text" and "mix").
        others: Objects outside the classes (default: those of `facts`; without any, the other classes).
        facts: The classes and their words (default: VisAlign's, with the paper's four examples of other animals).

    Returns:
        The rows, in the columns of `PROMPT_SCHEMA`.

    >>> prompt_table(2, count=3, seed=0)["truth"].n_unique()
    3
    """
    check_count(count)
    if category not in _ROUTES:
        raise InvalidInput(f"prompts are for category 2 or 5, got {category}; other categories are not composed")
    chosen_routes = _ROUTES[category] if routes is None else tuple(routes)
    known = set(_ROUTES[category])
    if not chosen_routes or len(set(chosen_routes)) < len(chosen_routes) or not set(chosen_routes) <= known:
        raise InvalidInput(
            f"routes of category {category} are {' and '.join(_ROUTES[category])}, each at most once, "
            f"got {', '.join(chosen_routes) or 'none'}"
        )
    facts = facts or read_class_facts()
    if others is not None:
        classes = {name.lower() for name in facts.subspecies}
        wrong = [name for name in others if not name.strip() or name.strip().lower() in classes]
        if wrong or not others or len(set(others)) < len(others):
            names = ", ".join(map(repr, wrong or others)) or "none"
            raise InvalidInput(f"other animals are distinct names outside the classes, got {names}")
        facts = replace(facts, others=tuple(others))
    if category == 5 and len(facts.subspecies) + len(facts.others) < 2:
        raise InvalidInput(f"a hybrid needs two kinds of objects, got {', '.join(facts.subspecies)}; name others")
    streams = {route: _rows(category, route, facts, seed) for route in chosen_routes}
    blocks = (islice(streams[route], len(facts.subspecies)) for route in cycle(chosen_routes))
    rows = islice((row for block in blocks for row in block), count)
    return pl.DataFrame(list(rows), schema=PROMPT_SCHEMA)


def _rows(category: int, route: Route, facts: ClassFacts, seed: int) -> Iterator[dict[str, Any]]:
    """Yield rows without end, each round of them with every class once."""
    kind, outside = f"category-{category}-{route}", facts.others
    factors: dict[str, list[tuple[Any, ...]]] = {}  # of each class: subspecies, and what else `_prompt` takes
    for name, subspecies in facts.subspecies.items():
        if category == 2:
            factors[name] = [subspecies, facts.backgrounds]
        elif route == "text":
            partners = outside or tuple(other for other in facts.subspecies if other != name)
            factors[name] = [subspecies, partners, facts.hybrid_templates]
        else:
            classes = [other for other in facts.subspecies if other != name]
            roles = [(other, "target") for other in (*classes, *outside)] + [(other, "image") for other in outside]
            factors[name] = [subspecies, facts.backgrounds, tuple(roles)]
    streams = {
        name: draws(list(product(*(range(len(values)) for values in own))), name=f"{kind}-{name}", seed=seed)
        for name, own in factors.items()
    }
    for name in cycle_classes(tuple(factors), name=kind, seed=seed):
        draw = next(streams[name])
        row = _prompt(facts, category, route, *(factors[name][i][index] for i, index in enumerate(draw.values)))
        row_seed = stimulus_seed(f"{row['prompt']}|{row.get('target', '')}", kind, str(draw.lap), seed)
        truth = truth_of(category, name)
        yield {"category": category, "truth": truth, "original": name, "seed": row_seed, "route": route, **row}


def _prompt(
    facts: ClassFacts, category: int, route: Route, animal: str, second: Any, third: Any = None
) -> dict[str, str]:
    """Return the prompt of a row and what it is made of, from the values of its factors."""
    if category == 5 and route == "text":
        prompt = third.format(animal=animal, other=second)
        return {"subspecies": animal, "other": second, "template": third, "prompt": prompt}
    row, in_image = {"subspecies": animal}, animal
    if category == 5:
        other, role = third
        in_image, target = (animal, other) if role == "target" else (other, animal)
        row |= {"other": other, "target": target}
    return row | {
        "background": second,
        "template": facts.background_template,
        "prompt": facts.background_template.format(animal=in_image, background=second),
        "negative_prompt": facts.negative_prompt,
    }


@dataclass(frozen=True, slots=True)
class GeneratedImages:
    """Recipe of images that a text-to-image pipeline makes from VisAlign's prompts.

    `load` returns the pipeline of a name, and `identify` a digest of it that does not depend on its folder.
    """

    category: int
    pipeline: str
    load: Callable[[str], Pipeline]
    count: int
    size: int = 512
    steps: int = 50
    guidance: float = 7.5
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # of `prompt_table`: routes, others, facts
    identify: Callable[[str], str] = pipeline_identity

    packages: ClassVar[tuple[str, ...]] = ("torch", "diffusers", "transformers")

    @property
    def settings(self) -> Mapping[str, Any]:
        """Verb, category, pipeline and its options."""
        return {
            "verb": "compose",
            "category": self.category,
            **self._pipeline_facts(),
            "size": self.size,
            "steps": self.steps,
            "guidance": self.guidance,
            "seed": self.seed,
            **({"labels": space_facts(self.options["facts"].space)} if "facts" in self.options else {}),
        }

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of the pipeline, if it is one."""
        folder = Path(self.pipeline).expanduser()
        return (folder,) if folder.is_dir() else ()

    def _pipeline_facts(self) -> dict[str, str]:
        """Return the name and the digest of the pipeline, not its folder."""
        return {"pipeline": Path(self.pipeline).expanduser().resolve().name, "weights": self.identify(self.pipeline)}

    def units(self) -> list[Unit]:
        """Return one unit per prompt."""
        table = prompt_table(self.category, count=self.count, seed=self.seed, **self.options)
        facts = self._pipeline_facts()
        return [
            Unit(
                row["prompt"],
                facts["weights"],
                (composition_job(index, row, parameters=composition_parameters(row, facts)),),
                payload=row,
            )
            for index, row in enumerate(table.iter_rows(named=True))
        ]

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterator[Outcome]:
        """Yield the image that the pipeline makes."""
        pipeline = self.load(self.pipeline)
        image = generate(pipeline, unit.payload, size=self.size, steps=self.steps, guidance=self.guidance)
        yield Outcome(jobs[0], image)
