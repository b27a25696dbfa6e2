"""Lists of models: those of Table 11 of the LAION-C paper, all known to timm."""

from __future__ import annotations

import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.models import ModelList, model_lists, parse
from cosight.torchvision_ops import import_torchvision


@pytest.fixture(scope="module")
def known():
    import_torchvision()
    import timm

    return set(timm.list_models(pretrained=True))


@pytest.mark.parametrize("name", sorted(model_lists))
def test_every_list_says_where_it_is_from_and_holds_lines_that_are_read_back(name):
    listed = model_lists[name]
    assert listed.name == name
    assert listed.source
    assert [str(parse(line)) for line in listed.models] == list(listed.models)


@pytest.mark.parametrize("name", sorted(model_lists))
def test_timm_has_weights_for_every_one(name, known):
    specs = [parse(line) for line in model_lists[name].models]
    assert [str(spec) for spec in specs if spec.source == "timm" and spec.name not in known] == []


def test_the_laion_c_papers_models():
    """Li et al. 2025, table 11: 16 with an abbreviation, two vision-language models, 35 by name only."""
    every, main = (model_lists[name].models for name in ("laion-c-paper", "laion-c-paper-main"))
    assert (len(every), len(main)) == (51, 16)
    assert every[:16] == main
    assert main[0] == "timm:eva_giant_patch14_560.m30m_ft_in22k_in1k"
    assert main[-1] == "timm:densenet161.tv_in1k"
    assert every[-1] == "timm:efficientformerv2_s2.snap_dist_in1k"


def test_lists_that_are_wrong():
    with pytest.raises(UnknownName, match="did you mean laion-c-paper"):
        model_lists["laion-c-papers"]
    with pytest.raises(InvalidInput, match="each once, got timm:a in mine"):
        ModelList("mine", ("timm:a", "timm:b", "timm:a"), "me")
    with pytest.raises(InvalidInput, match="got none in mine"):
        ModelList("mine", (), "me")
    with pytest.raises(InvalidInput, match="a model is named source:name"):
        ModelList("mine", ("resnet50",), "me")
