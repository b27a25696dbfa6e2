"""Every public function explains its parameters, its result and its errors, and has an example that runs.

Public is what `__all__` of `cosight` or of one of its packages exports. `tests/test_doctests.py` runs the examples.
"""

import ast
import doctest
import re
from functools import cache
from pathlib import Path

import pytest

from cosight import errors
from cosight.cli.signatures import argument_texts

SOURCE = Path(__file__).parent.parent / "src"
WITHOUT = ("cosight.cli",)  # docstrings of commands are their help texts

# Examples that are shown, but not run: they need a large model.
NOT_RUN = {
    "cosight.models.openclip_models.zero_shot",
    "cosight.stimuli.composition.diffusion.generate",
    "cosight.stimuli.composition.diffusion.load_pipeline",
    "cosight.stimuli.composition.diffusion.mix",
    "cosight.stimuli.composition.diffusion.text_to_image",
}


def file_of(module):
    """The file of a module or package, None if there is no such module."""
    path = SOURCE.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def parse(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def exported_names(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value)
    return []


def definition(module, name):
    """The module and the definition of an exported function; None for a class, a constant or a module."""
    tree = parse(file_of(module))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return module, node
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return None if node.module == module or not file_of(node.module) else definition(node.module, name)
    return None


def public_functions():
    functions = {}
    for file in sorted(SOURCE.rglob("__init__.py")):
        package = ".".join(file.parent.relative_to(SOURCE).parts)
        if package in WITHOUT:
            continue
        for name in exported_names(parse(file)):
            module, node = definition(package, name) or (None, None)
            if node is not None and module.startswith(package):
                functions[f"{module}.{name}"] = node
    return functions


PUBLIC = public_functions()


def annotated_text(annotation):
    """The text of `Annotated[type, "text"]`, which is a help text of the command line."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        return next((part.value for part in annotation.slice.elts[1:] if isinstance(part, ast.Constant)), None)
    return None


def raised_names(function):
    """The errors of cosight that the function raises itself, not those of the functions that it calls."""
    raised = (node.exc for node in ast.walk(function) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call))
    return {ast.unparse(call.func) for call in raised} & set(errors.__all__)


def flaws(name, function):
    """What the docstring of a function lacks."""
    text = ast.get_docstring(function) or ""
    summary, *rest = text.splitlines() or [""]
    if not summary.endswith((".", "?")) or (rest and rest[0]):
        yield "a summary of one line, with a full stop"
    arguments = function.args
    variable = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    parameters = [*arguments.posonlyargs, *arguments.args, *variable, *arguments.kwonlyargs]
    explained = argument_texts(text)
    for parameter in parameters:
        texts = [text for text in (explained.get(parameter.arg), annotated_text(parameter.annotation)) if text]
        if len(texts) != 1:
            yield f"{parameter.arg} explained once, under Args or in its Annotated type"
    if unknown := set(explained) - {parameter.arg for parameter in parameters}:
        yield f"only its own parameters under Args, not {', '.join(sorted(unknown))}"
    sections = set(re.findall(r"^(\w+):$", text, flags=re.MULTILINE))
    if ast.unparse(function.returns or ast.Constant(None)) != "None" and not sections & {"Returns", "Yields"}:
        yield "Returns"
    raises = text.partition("\nRaises:\n")[2].partition("\n\n")[0]
    for error in sorted(raised_names(function)):
        if not re.search(rf"^    {error}: ", raises, flags=re.MULTILINE):
            yield f"{error} under Raises"
    examples = doctest.DocTestParser().get_examples(text)
    if not examples:
        yield "an example"
    elif name not in NOT_RUN and all(example.options.get(doctest.SKIP) for example in examples):
        yield "an example that runs"


def test_there_are_public_functions():
    assert len(PUBLIC) > 150
    assert {"cosight.scoring.compare.compare", "cosight.stimuli.images.read_image"} <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_docstring_is_complete(name):
    assert list(flaws(name, PUBLIC[name])) == []


def test_listed_examples_are_not_run():
    for name in sorted(NOT_RUN):
        examples = doctest.DocTestParser().get_examples(ast.get_docstring(PUBLIC[name]))
        assert examples, name
        assert all(example.options.get(doctest.SKIP) for example in examples), name


def test_flaws_are_found():
    source = '''
def half(number: float, *, exact: bool = False) -> float:
    """Return half
    of a number.

    Args:
        numbers: A number.
    """
    if exact:
        raise InvalidInput("no")
'''
    function = ast.parse(source).body[0]
    assert list(flaws("half", function)) == [
        "a summary of one line, with a full stop",
        "number explained once, under Args or in its Annotated type",
        "exact explained once, under Args or in its Annotated type",
        "only its own parameters under Args, not numbers",
        "Returns",
        "InvalidInput under Raises",
        "an example",
    ]
