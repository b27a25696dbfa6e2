"""`source:name[,key=value...]`, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.models import ModelSpec, ensemble_of, parse
from cosight.models.model_spec import class_names_of, size_of

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
    assert parse("onnx:/home/me/a.onnx,threads=1,classes=/b/c.txt").label == "onnx:a.onnx,classes=c.txt"
    assert parse("ensemble:timm:a+[onnx:/b/c.onnx,size=64]+onnx:/d/e.onnx").label == (
        "ensemble:timm:a+[onnx:c.onnx,size=64]+onnx:e.onnx"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet50", r"source:name\[,key=value...\], got 'resnet50'; for example timm:resnet50"),
        ("", "for example timm:resnet50"),
        ("timm/resnet50.a1_in1k", r"did you mean timm:resnet50.a1_in1k\?$"),
        ("nets/mynet.pth", "weights need their architecture: timm:resnet50,checkpoint=nets/mynet.pth, or for a net"),
        ("mynet.safetensors", "timm:resnet50,checkpoint=mynet.safetensors"),
        ("mynet.onnx", r"did you mean onnx:mynet.onnx\?$"),
        ("nets/mynet.py", "name the function that returns the model: python:mynet:FUNCTION"),
        ("answers.csv", r"did you mean trials:answers.csv\?$"),
        ("/", "this is a folder: give images with --on FOLDER"),
        ("timm:", "got 'timm:'"),
        (":resnet50", "got ':resnet50'"),
        ("ti mm:resnet50", "got 'ti mm:resnet50'"),
        ("timm:x,size=1,size=2", "must be given once, got size 2 times"),
    ],
)
def test_other_lines_are_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse(text)


def test_a_short_name():
    spec = parse("timm:resnet50.a1_in1k,size=64,name=r50")
    assert (spec.label, str(spec)) == ("r50", "timm:resnet50.a1_in1k,name=r50,size=64")
    assert parse("ensemble:timm:a+[timm:b,size=64],name=both").label == "both"
    assert parse("ensemble:timm:a+[timm:b,name=small]").label == "ensemble:timm:a+small"
    for name in ("", " ", "a#knn", "a\tb"):
        with pytest.raises(InvalidInput, match="the name of a model must be printable text without #"):
            parse(f"timm:resnet50,name={name}")


def test_a_value_that_could_not_be_read_back_is_refused():
    with pytest.raises(InvalidInput, match="must not contain `,key=`"):
        ModelSpec("timm", "x", (("checkpoint", "a,b=c"),))
    with pytest.raises(InvalidInput, match="source:name"):
        ModelSpec("timm", "x", (("no key", "1"),))


def test_numbers_and_known_keys():
    spec = parse("timm:x,mean=.5/0.25/1e-1,size=big")
    assert spec.numbers("mean") == (0.5, 0.25, 0.1)
    assert spec.numbers("std") is None
    with pytest.raises(InvalidInput, match=r"size must be numbers separated by slashes, got 'big'"):
        spec.numbers("size")
    with pytest.raises(InvalidInput, match="options of timm models are mean, sizes, got size; did you mean sizes"):
        spec.allow(("mean", "sizes"))


# --- ensembles


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("ensemble:timm:a+timm:b+cosight:c", ["timm:a", "timm:b", "cosight:c"]),
        ("ensemble:[timm:a,checkpoint=/x/y,z.pt]+timm:b", ["timm:a,checkpoint=/x/y,z.pt", "timm:b"]),
        ("ensemble:onnx:/d/a+b.onnx+timm:c", ["onnx:/d/a+b.onnx", "timm:c"]),  # no source: behind the first +
        ("ensemble:[onnx:a+timm:b.onnx]+timm:c", ["onnx:a+timm:b.onnx", "timm:c"]),
        ("ensemble:python:p.m:f+timm:c", ["python:p.m:f", "timm:c"]),
        ("ensemble:[ensemble:[timm:a,size=1]+timm:b]+timm:c", ["ensemble:[timm:a,size=1]+timm:b", "timm:c"]),
        ("ensemble:timm:a", ["timm:a"]),
    ],
)
def test_members_are_read(text, members):
    assert parse(text).members == tuple(map(parse, members))
    assert str(parse(text)) == text


def test_options_behind_an_ensemble_are_its_own():
    spec = parse("ensemble:[timm:a,size=1]+timm:b,classes=x")
    assert (spec.name, spec.options) == ("[timm:a,size=1]+timm:b", (("classes", "x"),))
    assert parse("timm:a+timm:b").members == ()


_specs = st.builds(
    lambda source, name, options: ModelSpec(source, name, tuple(options.items())),
    _words.filter(lambda word: word != "ensemble"),
    _texts.filter(lambda text: not {"[", "]"} & set(text)),
    st.dictionaries(_words, _texts.filter(lambda text: not {"[", "]"} & set(text)), max_size=2),
)


@given(
    st.recursive(
        st.lists(_specs, min_size=1, max_size=3).map(ensemble_of),
        lambda inner: st.lists(inner | _specs, min_size=1, max_size=3).map(ensemble_of),
        max_leaves=4,
    )
)
def test_an_ensemble_written_is_read_again(spec):
    assert parse(str(spec)) == spec
    assert ensemble_of(spec.members) == spec
    assert parse(spec.label).label == spec.label


@pytest.mark.parametrize("text", ["ensemble:[timm:a+timm:b", "ensemble:timm:a]+timm:b", "ensemble:[timm:a,size=1"])
def test_brackets_that_do_not_pair(text):
    with pytest.raises(InvalidInput, match="must pair"):
        parse(text)


def test_members_that_could_not_be_read_back():
    with pytest.raises(InvalidInput, match="must pair"):
        ensemble_of(["onnx:a]+timm:b[.onnx", "timm:c"])
    with pytest.raises(InvalidInput, match="source:name"):
        _ = parse("ensemble:a+b").members


@pytest.mark.parametrize("name", ["classes.txt", "classes.json"])
def test_a_byte_order_mark_is_no_part_of_a_class(tmp_path, name):
    content = "cat\ndog\n" if name.endswith("txt") else '["cat", "dog"]'
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert class_names_of(parse(f"timm:a,classes={tmp_path / name}")) == ("cat", "dog")


@pytest.mark.parametrize("content", [b"[" * 3000, b"\xff", b'{"a": 1}', b'["a", 5]', b'["\\ud800"]', b""])
def test_files_that_are_no_classes(tmp_path, content):
    (tmp_path / "classes.json").write_bytes(content)
    with pytest.raises(InvalidInput, match="classes"):
        class_names_of(parse(f"timm:a,classes={tmp_path / 'classes.json'}"))


@pytest.mark.parametrize("size", ["1e400", "nan", "100000", "0.5", "-3"])
def test_sizes_that_no_network_has(size):
    with pytest.raises(InvalidInput, match="size must be"):
        size_of(parse(f"timm:a,size={size}"))
