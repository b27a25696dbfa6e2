"""`source:name[,key=value...]`, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.models import ModelSpec, parse

_words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)
_texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1).filter(lambda text: "," not in text)


@pytest.mark.parametrize(
    ("text", "source", "name", "options"),
    [
        ("timm:resnet50.a1_in1k", "timm", "resnet50.a1_in1k", {}),
        ("openclip:ViT-B-32/laion2b", "openclip", "ViT-B-32/laion2b", {}),
        ("python:package.module:function", "python", "package.module:function", {}),
        ("timm:vit,size=224/160,mean=.5/.5/.5", "timm", "vit", {"size": "224/160", "mean": ".5/.5/.5"}),
        ("onnx:a,b.onnx", "onnx", "a,b.onnx", {}),  # no `key=` behind the comma
        ("timm:x,checkpoint=/w/a,b=c/d.pt,size=1", "timm", "x", {"checkpoint": "/w/a", "b": "c/d.pt", "size": "1"}),
        ("timm:x,checkpoint=/w/lr=.1, last.pt", "timm", "x", {"checkpoint": "/w/lr=.1, last.pt"}),
        (" timm:x,checkpoint= ", "timm", "x", {"checkpoint": ""}),
    ],
)
def test_lines_are_read(text, source, name, options):
    assert parse(text) == ModelSpec(source, name, tuple(options.items()))


@given(_words, _texts, st.dictionaries(_words, _texts, max_size=4))
def test_what_is_written_is_read_again(source, name, options):
    spec = ModelSpec(source, name, tuple(options.items()))
    assert parse(str(spec)) == spec
    assert eval(repr(spec)) == spec  # the constructor
    assert hash(parse(str(spec))) == hash(spec)


def test_the_order_of_options_does_not_matter():
    assert parse("timm:x,std=1,mean=0") == parse("timm:x,mean=0,std=1")
    assert str(parse("timm:x,std=1,mean=0")) == "timm:x,mean=0,std=1"


def test_an_observers_name_does_not_tell_where_its_weights_lie():
    assert parse("timm:x,checkpoint=/home/me/w/a.pt,size=64").label == "timm:x,checkpoint=a.pt,size=64"
    assert parse("timm:x").label == "timm:x"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet50", r"source:name\[,key=value...\], got 'resnet50'; for example timm:resnet50"),
        ("", "for example timm:resnet50"),
        ("timm:", "got 'timm:'"),
        (":resnet50", "got ':resnet50'"),
        ("ti mm:resnet50", "got 'ti mm:resnet50'"),
        ("timm:x,size=1,size=2", "given once, got size 2 times"),
    ],
)
def test_other_lines_are_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse(text)


def test_a_value_that_could_not_be_read_back_is_refused():
    with pytest.raises(InvalidInput, match="must not hold `,key=`"):
        ModelSpec("timm", "x", (("checkpoint", "a,b=c"),))
    with pytest.raises(InvalidInput, match="source:name"):
        ModelSpec("timm", "x", (("no key", "1"),))


def test_numbers_and_known_keys():
    spec = parse("timm:x,mean=.5/0.25/1e-1,size=big")
    assert spec.numbers("mean") == (0.5, 0.25, 0.1)
    assert spec.numbers("std") is None
    with pytest.raises(InvalidInput, match=r"size must be numbers like .5/.5/.5, got 'big'"):
        spec.numbers("size")
    with pytest.raises(InvalidInput, match="options of timm models are mean, sizes, got size; did you mean sizes"):
        spec.allow(("mean", "sizes"))
