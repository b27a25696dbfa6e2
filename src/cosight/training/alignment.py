"""Auxiliary losses that align a network's errors with those of a target observer, such as people.

Each is 1 - a measure of error alignment in which the network's softmax and the observer's label distribution take the
place of single answers. On one-hot answers the soft measures equal `misclassification_agreement` and
`class_level_error_similarity`. Both are functions of sums over images, so that processes which share a batch add up
their sums and get the same value.

CLES needs no common images, so each batch is compared with the observer's errors on all training images. Against the
few errors that people make on a batch, the prior of CLES would decide, and pull the network's errors towards all
classes alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cosight.measures.confusion import ALPHA

if TYPE_CHECKING:
    from torch import Tensor

    from cosight.training.context import ProcessGroup

__all__ = [
    "Alignment",
    "alignment_loss",
    "expected_errors",
    "soft_class_level_error_similarity",
    "soft_misclassification_agreement",
]

Alignment = Literal["cles", "ma"]


def soft_class_level_error_similarity(probabilities: Tensor, observer: Tensor, truth: Tensor) -> Tensor:
    """Compute CLES of expected confusion counts: cell (c, j) is the sum of p(j) over the images of class c.

    Args:
        probabilities: The network's softmax outputs (images, classes).
        observer: The target observer's label distributions (images, classes). An image whose row is all zeros is left
            out of both observers' counts.
        truth: The true class of each image (images,).

    Returns:
        The similarity, differentiable with respect to both; nan without any error.

    >>> import torch
    >>> answers = torch.eye(3, dtype=torch.float64)[[1, 2]]
    >>> float(soft_class_level_error_similarity(answers, answers, torch.tensor([0, 0])))
    1.0
    """
    return _similarity(
        _confusion_sums(probabilities, observer, truth), expected_errors(observer, truth), probabilities.shape[1]
    )


def soft_misclassification_agreement(probabilities: Tensor, observer: Tensor, truth: Tensor) -> Tensor:
    """Compute Cohen's kappa of expected counts over jointly wrong answers.

    Both observers answer at random and independently, from their distributions. The counts that kappa is made of
    (joint errors, equal wrong answers, and each observer's wrong answers where the other one errs) are replaced by
    their expectations.

    Args:
        probabilities: The network's softmax outputs (images, classes).
        observer: The target observer's label distributions (images, classes). An image whose row is all zeros is left
            out.
        truth: The true class of each image (images,).

    Returns:
        The agreement, differentiable with respect to both; nan where `misclassification_agreement` is.

    >>> import torch
    >>> network, person = torch.eye(3)[[1, 2, 0, 1]], torch.eye(3)[[1, 2, 1, 0]]
    >>> round(float(soft_misclassification_agreement(network, person, torch.tensor([0, 0, 2, 2]))), 4)
    0.2
    """
    return _agreement(_joint_error_sums(probabilities, observer, truth))


def expected_errors(observer: Tensor, truth: Tensor) -> Tensor:
    """Compute the target observer's expected confusion counts, which `alignment_loss` compares batches with.

    Args:
        observer: The target observer's label distributions (images, classes); all zeros for an image without any.
        truth: The true class of each image (images,).

    Returns:
        The number of images with a distribution, then the counts of wrong answers, row by row (1 + classes * classes,).

    >>> import torch
    >>> expected_errors(torch.tensor([[0.75, 0.25], [0.0, 0.0]]), torch.tensor([0, 1])).tolist()
    [1.0, 0.0, 0.25, 0.0, 0.0]
    """
    return _confusion_sums(observer, observer, truth)


def alignment_loss(
    name: Alignment,
    logits: Tensor,
    observer: Tensor,
    truth: Tensor,
    errors: Tensor,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Compute 1 - the soft measure of a batch; 0, with gradient 0, where the measure is undefined.

    For CLES, the network's expected confusion counts are multiplied to as many images as `errors` is about, as if the
    batch stood for all of them.

    Args:
        name: The measure.
        logits: The network's outputs (images, classes).
        observer: The target observer's label distributions (images, classes); all zeros for an image without any.
        truth: The true class of each image (images,).
        errors: The target observer's `expected_errors` on all training images.
        group: The processes that share the batch (default: this one has all of it).

    Returns:
        The loss of the whole batch, the same in all processes. Averaging its gradients over the processes gives the
        gradient of the whole batch.

    >>> import torch
    >>> person, truth = torch.eye(3)[[1, 2]], torch.tensor([0, 0])
    >>> round(float(alignment_loss("cles", 100 * person, person, truth, expected_errors(person, truth))), 6)
    0.0
    """
    import torch

    sums = (_joint_error_sums if name == "ma" else _confusion_sums)(torch.softmax(logits, dim=1), observer, truth)
    if group is not None and group.world > 1:
        from torch.distributed.nn.functional import all_reduce

        sums = all_reduce(sums)  # differentiable: its backward pass adds up gradients
    value = _agreement(sums) if name == "ma" else _similarity(sums, errors, logits.shape[1])
    return sums.sum() * 0 if bool(value.isnan()) else 1 - value


def _errors(answers: Tensor, truth: Tensor) -> Tensor:
    """Return the distributions without the true class (images, classes)."""
    return answers.scatter(1, truth[:, None], 0.0)


def _confusion_sums(probabilities: Tensor, observer: Tensor, truth: Tensor) -> Tensor:
    """Return the number of images that the observer answered, and the expected errors on them, row by row."""
    import torch

    answered = (observer.sum(dim=1) > 0).to(probabilities.dtype)
    true = torch.nn.functional.one_hot(truth, probabilities.shape[1]).to(probabilities.dtype).T
    counts = true @ _errors(probabilities * answered[:, None], truth)
    return torch.cat([answered.sum()[None], counts.flatten()])


def _similarity(sums: Tensor, errors: Tensor, classes: int) -> Tensor:
    """Compute CLES of expected errors, those of `sums` multiplied to the number of images of `errors`."""
    import torch

    both = torch.stack([sums[1:] * (errors[0] / sums[0]), errors[1:]])
    # all cells but the diagonal, in an order that does not matter: (2, classes, classes - 1)
    counts = both[:, 1:].reshape(2, classes - 1, classes + 1)[:, :, :-1].reshape(2, classes, classes - 1)
    totals = counts.sum(dim=2)
    p = (counts + ALPHA) / (totals[:, :, None] + ALPHA * (classes - 1))
    middle = p.mean(dim=0)
    divergence = (p * (p.log() - middle.log())).sum(dim=2).mean(dim=0)
    weights = totals.sum(dim=0)
    return 1 / (1 + (divergence * weights).sum() / weights.sum())


def _joint_error_sums(probabilities: Tensor, observer: Tensor, truth: Tensor) -> Tensor:
    """Return, one after the other: joint errors, equal ones, and the wrong answers of each where the other errs."""
    import torch

    a, b = _errors(probabilities, truth), _errors(observer, truth)
    wrong_a, wrong_b = a.sum(dim=1), b.sum(dim=1)
    joint, equal = (wrong_a * wrong_b).sum(), (a * b).sum()
    return torch.cat([torch.stack([joint, equal]), wrong_b @ a, wrong_a @ b])


def _agreement(sums: Tensor) -> Tensor:
    joint, equal = sums[0], sums[1]
    observed, (a, b) = equal / joint, (sums[2:] / joint).chunk(2)
    expected = a @ b
    kappa = (observed - expected) / (1 - expected)
    return kappa.where(expected < 1, kappa.new_tensor(float("nan")))
