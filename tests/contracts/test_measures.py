"""One contract for every measure in the registry: a new entry is tested without writing a line here."""

import importlib
import inspect
import math
import pkgutil
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import cosight.measures
from cosight.measures import Answers, measures, pair_forms, solo_forms

N, K = 60, 4  # stimuli, classes
OWN = sorted(name for name, facts in measures.items() if facts.function.__module__.startswith("cosight."))
PAIRS = [name for name in OWN if measures[name].symmetric is not None]
FROM_A_TABLE = [name for name in PAIRS if set(measures[name].needs) <= {"correctness", "responses", "truth"}]


# --- arguments from needs -------------------------------------------------------------------------------------------


def _softmax(rng, classes=K):
    return rng.dirichlet(np.full(classes, 0.7), N)


def _abstention(rng):
    return rng.random(N)


def _classes(rng):
    return rng.integers(0, K, N)


def _cues(rng):
    return rng.integers(0, K, N), rng.integers(0, K, N)


EACH = {  # what one observer brings
    "abstention": _abstention,
    "amounts": lambda rng: rng.random(N) * 1000,
    "correctness": lambda rng: rng.random(N) < 0.6,
    "counts": lambda rng: rng.integers(0, 5, (N, K)),
    "distances": lambda rng: rng.random((N, K)),
    "distributions": _softmax,
    "features": lambda rng: rng.normal(size=(N, 5)) @ rng.normal(size=(5, 5)),
    "items": lambda rng: rng.integers(0, 9, N),
    "outcomes": lambda rng: rng.random(N) < 0.1,
    "raters": lambda rng: rng.integers(0, 3, N),
    "reached": _abstention,
    "ratings": lambda rng: np.where(rng.random((5, N)) < 0.2, np.nan, rng.integers(0, K, (5, N))),
    "responses": _classes,
    "scores": lambda rng: rng.integers(0, 6, (N, 7)).astype(float),
    "to_seed": _abstention,
    "to_target": _abstention,
    "values": lambda rng: rng.normal(size=N),
}
SHARED = {  # what belongs to the stimuli, one array or several
    "cues": _cues,
    "gold": lambda rng: (_softmax(rng, K + 1),),
    "groups": lambda rng: (rng.choice(["must-act", "must-abstain", "uncertain"], N),),
    "original": lambda rng: (_classes(rng),),
    "truth": lambda rng: (_classes(rng),),
}
KNOWN = {  # tuples a builder has been thought through for; their arrays fit together
    ("abstention",),
    ("abstention", "correctness"),
    ("amounts",),
    ("correctness",),
    ("counts",),
    ("distances",),
    ("distances", "truth"),
    ("distributions",),
    ("distributions", "abstention", "original", "groups", "gold"),
    ("distributions", "correctness"),
    ("features",),
    ("outcomes",),
    ("raters", "items", "responses"),
    ("ratings",),
    ("reached",),
    ("responses",),
    ("responses", "cues"),
    ("responses", "truth"),
    ("scores",),
    ("to_target", "to_seed"),
    ("values",),
}


def arguments(name, seed=0):
    """Positional arguments as the docstring of `Measure` says; (own arrays a need, shared arrays), in order."""
    facts, rng = measures[name], np.random.default_rng(seed)
    if facts.needs not in KNOWN:
        pytest.fail(
            f"no builder for the needs {facts.needs} of {name}: add the tuple to KNOWN, new needs to EACH or SHARED"
        )
    observers = 1 if facts.symmetric is None else 2
    return [
        SHARED[need](rng) if need in SHARED else tuple(EACH[need](rng) for _ in range(observers))
        for need in facts.needs
    ]


def flat(groups):
    return [array for group in groups for array in group]


def swapped(name, groups):
    """The same with the two observers' places changed; what they share stays."""
    return [group if need in SHARED else group[::-1] for need, group in zip(measures[name].needs, groups, strict=True)]


def value(name, groups):
    return measures[name].function(*flat(groups)).value


# --- the contract ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OWN)
def test_the_result_is_a_frozen_dataclass_with_a_value_in_range(name):
    facts = measures[name]
    for seed in range(3):
        result = facts.function(*flat(arguments(name, seed)))
        assert is_dataclass(result)
        assert type(result).__dataclass_params__.frozen
        assert hasattr(type(result), "__slots__")
        assert type(result.value) is float
        assert facts.low - 1e-9 <= result.value <= facts.high + 1e-9


@pytest.mark.parametrize("name", OWN)
def test_same_input_same_output_and_the_input_is_not_modified(name):
    groups, before = arguments(name), arguments(name)
    for array in flat(groups):
        array.flags.writeable = False
    first, second = (measures[name].function(*flat(groups)) for _ in range(2))
    for field in fields(first):
        np.testing.assert_equal(getattr(first, field.name), getattr(second, field.name))
    for array, kept in zip(flat(groups), flat(before), strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("name", OWN)
def test_lists_will_do_for_arrays(name):
    groups = arguments(name)
    plain = [tuple(array.tolist() for array in group) for group in groups]
    assert value(name, plain) == pytest.approx(value(name, groups), abs=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_symmetric_measures_do_not_know_who_is_first_and_the_others_do(name):
    once = [value(name, arguments(name, seed)) for seed in range(3)]
    other = [value(name, swapped(name, arguments(name, seed))) for seed in range(3)]
    if measures[name].symmetric:
        assert once == pytest.approx(other, abs=1e-9)
    else:
        assert once != pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("name", OWN)
def test_what_it_says_about_itself(name):
    facts = measures[name]
    doc = inspect.getdoc(facts.function)
    assert "nan" in doc or "ndefined" in doc, "say when it is undefined"
    assert ">>>" in doc, "give an example"
    assert re.match(r"[^\n]+[.?]\n\n", doc), "begin with one line that ends in a full stop"
    assert re.fullmatch(r"[A-Z0-9].*[.?]", facts.summary), "a summary is a sentence"
    assert re.search(r"\b(1[89]|20)\d\d\b", facts.citation), "a citation has a year"
    assert not facts.citation.endswith((".", ",", ";", " "))
    assert facts.low < facts.high
    assert facts.name == name == facts.function.__name__


@pytest.mark.parametrize("name", OWN)
def test_names_and_aliases_find_it(name):
    facts = measures[name]
    assert all(measures.name_of(alias) == name for alias in facts.aliases)
    for alias in (name, *facts.aliases):
        assert measures[alias] is facts
        assert re.fullmatch(r"[a-z0-9_]+", alias)
    assert getattr(cosight.measures, name) is facts.function


@pytest.mark.parametrize("name", OWN)
def test_positional_arguments_are_those_of_the_needs(name):
    """Everything else has a default and, `gold` aside, which only Uncertain stimuli need, is keyword-only."""
    parameters = inspect.signature(measures[name].function).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(positional) == len(flat(arguments(name)))
    assert all(p.default is p.empty or p.name == "gold" for p in positional)
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters if p not in positional)


# --- forms for whole tables -----------------------------------------------------------------------------------------


def table(seed):
    rng = np.random.default_rng(seed)
    response, truth = rng.integers(0, K, (5, N)), rng.integers(0, K, N)
    right = rng.random(response.shape) < 0.4
    return Answers(np.where(right, truth, response).astype(np.int16), truth.astype(np.int16), K)


def of_pair(name, answers, i, j):
    """The plain function on two rows of a table in which every class occurs."""
    facts = measures[name]
    groups = {
        "correctness": (answers.correct[i], answers.correct[j]),
        "responses": (answers.response[i], answers.response[j]),
        "truth": (answers.truth,),
    }
    return facts.function(*flat([groups[need] for need in facts.needs])).value


@pytest.mark.parametrize("name", FROM_A_TABLE)
def test_every_pair_measure_of_answers_has_a_form_for_tables(name):
    answers = table(1)
    expected = [[of_pair(name, answers, i, j) for j in range(5)] for i in range(5)]
    matrix = pair_forms[name].matrix(answers)
    np.testing.assert_allclose(matrix, expected, atol=1e-12)
    pairs, once = np.array([[0, 1], [3, 2]]), np.ones((1, N), dtype=np.float32)
    resampled = pair_forms[name].resampled(answers, once, pairs)
    np.testing.assert_allclose(resampled[:, 0], matrix[pairs[:, 0], pairs[:, 1]], atol=1e-12)
    count = pair_forms[name].count(answers, pairs)
    assert count.shape == (2,)
    assert ((count > 0) & (count <= 2 * N)).all()
    assert pair_forms[name].undefined


def test_every_form_belongs_to_a_measure():
    assert set(pair_forms) == set(FROM_A_TABLE)
    assert all(measures[name].symmetric is None for name in solo_forms)


# --- the package ----------------------------------------------------------------------------------------------------


INNER = {"arithmetic"}  # what the modules share among themselves


def test_the_package_exports_every_public_name_of_its_modules():
    names = {m.name for m in pkgutil.iter_modules(cosight.measures.__path__)} - INNER
    modules = [importlib.import_module(f"cosight.measures.{name}") for name in sorted(names)]
    names = [name for module in modules for name in module.__all__]
    assert len(names) == len(set(names)), "two modules share a public name"
    missing, extra = set(names) - set(cosight.measures.__all__), set(cosight.measures.__all__) - set(names)
    assert not missing, f"import them in cosight/measures/__init__.py and list them in its __all__: {sorted(missing)}"
    assert not extra, f"no module has them: {sorted(extra)}"
    for module in modules:
        for name in module.__all__:
            assert getattr(cosight.measures, name) is getattr(module, name)


def test_importing_the_package_is_light():
    """scipy.stats alone would take as long as all the rest; torch is no part of the core."""
    heavy = "{'scipy.stats', 'scipy.optimize', 'torch', 'polars', 'sklearn'} & set(sys.modules)"
    code = f"import sys, cosight.measures; print(sorted({heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_tuple_of_needs_says_what_to_do(monkeypatch):
    monkeypatch.setitem(globals(), "KNOWN", set())
    with pytest.raises(pytest.fail.Exception, match="add the tuple to KNOWN"):
        arguments("error_consistency")


def test_ranges_are_real_numbers():
    assert not any(math.isnan(facts.low) or math.isnan(facts.high) for facts in measures.values())
