"""The course's own laboratory: this machine, the model pairs, training, measuring."""
