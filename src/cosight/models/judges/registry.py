"""The registry of judges, and `load_judge`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cosight.devices import check_device_name
from cosight.errors import InvalidInput
from cosight.models.judges.distance_judge import load_feature_judge
from cosight.models.judges.dreamsim_judge import DREAMSIM_KEYS, load_dreamsim
from cosight.models.judges.lpips_judge import LPIPS_KEYS, load_lpips
from cosight.models.judges.questions import Judge
from cosight.models.loading import check_model_spec, sources
from cosight.models.model import check_file
from cosight.models.model_spec import ModelSpec, checkpoint_of, parse
from cosight.models.vlm.judge import load_vlm_judge
from cosight.models.vlm.settings import VLM_KEYS
from cosight.registry import Registry

__all__ = ["JudgeSource", "check_judge", "judges", "load_judge"]


@dataclass(frozen=True, slots=True)
class JudgeSource:
    """Registry entry of a judge.

    Args:
        name: The word before the first comma or colon of its reference.
        load: `load(spec, device)` returns the judge; None for people, who answer in a study.
        summary: One sentence.
        citation: Where it was published.
        keys: Options that it takes.
    """

    name: str
    load: Callable[[ModelSpec, str], Judge] | None
    summary: str
    citation: str
    keys: tuple[str, ...] = ()


judges: Registry[JudgeSource] = Registry("judge")

for _entry in (
    JudgeSource(
        "lpips",
        load_lpips,
        "LPIPS with AlexNet; images below 64 pixels are enlarged to 64.",
        "Zhang et al. 2018, The unreasonable effectiveness of deep features as a perceptual metric",
        LPIPS_KEYS,
    ),
    JudgeSource(
        "dreamsim",
        load_dreamsim,
        "DreamSim, trained on people's choices between similar images.",
        "Fu et al. 2023, DreamSim: learning new dimensions of human visual similarity",
        DREAMSIM_KEYS,
    ),
    JudgeSource(
        "features",
        load_feature_judge,
        "Distance of the features of any model; named as the model, source:NAME.",
        "Nanda et al. 2021, Exploring alignment of representations with human perception",
    ),
    JudgeSource(
        "vlm",
        load_vlm_judge,
        "A vision-language model, asked which option looks most like the query; vlm:NAME.",
        "cosight; the tasks are those of Nanda et al. 2021",
        VLM_KEYS,
    ),
    JudgeSource(
        "people",
        None,
        "People, in a study of type 2afc or cluster (`cosight study new`).",
        "Nanda et al. 2021, Exploring alignment of representations with human perception",
    ),
):
    judges.add(_entry.name, _entry)


def check_judge(reference: str) -> None:
    """Raise if a reference cannot name a judge, as far as is known at once: form, name, options and files.

    Args:
        reference: As for `load_judge`.

    Raises:
        InvalidInput: An option or a file is wrong, or the judge answers elsewhere.
        UnknownName: There is no such judge.

    >>> check_judge("lpip")
    Traceback (most recent call last):
    cosight.errors.UnknownName: no judge is called 'lpip'; did you mean lpips? (`cosight list judges` shows all)
    """
    _resolve(reference)


def load_judge(reference: str, *, device: str = "auto") -> Judge:
    """Load a judge.

    Args:
        reference: `lpips`, another judge (`cosight list judges`) with its options, or a model whose features are
            compared, `source:name[,key=value...]`.
        device: Where it runs: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).

    Returns:
        The judge.

    Raises:
        InvalidInput: An option is wrong, or there are no weights; the message says where to put them.
        UnknownName: There is no such judge.

    >>> load_judge("people")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: people answer in a study, not here; make one with `cosight study new STUDY --type 2afc
    --set SET`, and score its export beside the judges' trials
    """
    load, spec = _resolve(reference)
    return load(spec, check_device_name(device))


def _resolve(reference: str) -> tuple[Callable[[ModelSpec, str], Judge], ModelSpec]:
    """Return the function that loads the judge of a reference, and its name and options."""
    word = reference.partition(",")[0].partition(":")[0].strip()
    if word in sources and word not in judges:
        check_model_spec(reference)
        return load_feature_judge, parse(reference)
    spec = parse(reference if ":" in reference.partition(",")[0] else f"judge:{reference.strip()}")
    source = judges[word]
    if source.load is None:
        raise InvalidInput(
            "people answer in a study, not here; make one with `cosight study new STUDY --type 2afc --set SET`, and "
            "score its export beside the judges' trials"
        )
    if source.load is load_feature_judge:
        raise InvalidInput(f"name the model whose features are compared, source:NAME, got {reference!r}")
    spec.allow(source.keys)
    path = checkpoint_of(spec)
    if path is not None:
        check_file(path, "a checkpoint")
    return source.load, spec
