"""The order of problems in training: a function of seed and epoch alone."""

import torch
from trl.trainer.utils import RepeatSampler


class EpochSampler(RepeatSampler):
    """TRL's sampler with an order that is a function of seed and epoch, not of how often it was iterated.

    The order of epoch e is the e-th permutation of TRL's own generator, so that nothing changes for a run
    that is never interrupted.
    """

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self):
        if self.shuffle:
            self.generator.manual_seed(self.seed)
            for _ in range(self.epoch):
                torch.randperm(self.num_samples, generator=self.generator)
        self.epoch += 1
        return super().__iter__()
