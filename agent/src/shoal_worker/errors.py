"""What can go wrong in a worker that its front must treat differently?

WorkerError
├── EngineMissing   broken installation: the interpreter lacks the engine or NumPy
├── ModelRefused    refuse this release: the engine doesn't take the model
├── BadTensor       wrong request: name, type or shape of an input
└── EngineFailed    the engine failed on inputs that fit its signature
    └── RunCancelled    the front asked for it

What goes wrong on the way between two processes is a `channel.ChannelError`.
"""

from __future__ import annotations


class WorkerError(Exception):
    """A worker could not do what it was asked."""


class EngineMissing(WorkerError):
    """The interpreter can't import the engine or what the engine needs."""


class ModelRefused(WorkerError):
    """The engine can't load the model, or the model has inputs or outputs that are no plain tensors."""


class BadTensor(WorkerError):
    """An input doesn't fit the model's signature, or its type can't travel."""


class EngineFailed(WorkerError):
    """The engine failed while it ran a model on inputs that fit."""


class RunCancelled(EngineFailed):
    """A run was stopped on request."""
