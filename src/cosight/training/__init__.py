"""Training: networks from a recipe, one per seed, as checkpoints that `cosight:NAME,checkpoint=FILE` loads.

* recipe      architecture, data and settings: a TOML file
* data        a stimulus set or folder as training data: classes, targets, validation images
* augment     random crops, flips and views
* networks    the network that training starts from: new, or a pretrained trunk with a new head
* alignment   auxiliary losses: compare a network's errors with those of people
* robust      adversarial training: attacked batches, the losses of TRADES and MART
* ssl         self-supervised pretraining: SimCLR, BYOL
* trainer     the epochs, and `train` itself
* checkpoint  finished networks, and the state of unfinished ones
* context     what all networks of a recipe share: data, device, the processes that torchrun started

Importing this package imports no torch; training does.
"""

from cosight.training.checkpoint import Epoch
from cosight.training.recipe import Recipe, read_recipe
from cosight.training.trainer import TrainedNetwork, train

__all__ = ["Epoch", "Recipe", "TrainedNetwork", "read_recipe", "train"]
