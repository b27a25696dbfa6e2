"""The parametric manipulations of model-vs-human, for which people's answers exist (Geirhos et al. 2018).

Kinds bear the names of the experiments, steps the experiments' condition names, in order of strength. All but `colour`
and `false-colour` show grey images, in the undistorted condition too; they keep the input's shape.
"""

from cosight.stimuli.manipulations import filters, light, opponent, waves  # noqa: F401 (they fill the registry)
from cosight.stimuli.manipulations.conditions import condition_step, manipulate, manipulations
from cosight.stimuli.manipulations.spectrum import Spectrum, mean_spectrum, read_spectrum

__all__ = [
    "Spectrum",
    "condition_step",
    "manipulate",
    "manipulations",
    "mean_spectrum",
    "read_spectrum",
]
