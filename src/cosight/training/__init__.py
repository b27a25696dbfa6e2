"""Training: networks from a recipe, one a seed, as checkpoints that `cosight:NAME,checkpoint=FILE` reads.

* recipe      what is trained on what, and how: a TOML file
* data        a stimulus set or folder as training data: classes, targets, validation images
* augment     what becomes of an image each time it is learnt from
* networks    the network that training begins with: new, or a pretrained trunk under a new head
* schedule    when the rate falls and when training ends
* trainer     the epochs, and `train` itself
* ssl         learning from images alone first: SimCLR, BYOL
* checkpoint  what is left behind, and the state while training is under way
* processes   several processes that torchrun started

Importing this imports no torch; training does.
"""

from cosight.training.recipe import Recipe, read_recipe
from cosight.training.schedule import Epoch
from cosight.training.trainer import TrainedNetwork, train

__all__ = ["Epoch", "Recipe", "TrainedNetwork", "read_recipe", "train"]
